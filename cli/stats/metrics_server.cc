// SPDX-License-Identifier: Apache-2.0
#include "cli/stats/metrics_server.h"

#include <fmt/core.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <asio/ip/tcp.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>
#include <cerrno>
#include <cstring>
#include <map>
#include <utility>

#include "cli/control/control_client.h"
#include "cli/control/control_path.h"
#include "transport/net/endpoint.h"
#include "transport/runtime/fd.h"

namespace nfsrdma::cli {
namespace {

using Clock = std::chrono::steady_clock;

// The inode of the socket that the path names; 0: no socket.
ino_t socket_at(const std::string& path) {
  struct stat st {};
  return lstat(path.c_str(), &st) == 0 && S_ISSOCK(st.st_mode) ? st.st_ino : 0;
}

tl::unexpected<Failure> failed(const MetricsPlace& place, const char* what, int error) {
  return refuse(ToolExit::kFailed, fmt::format("{}: {}: {}", place.text(), what, std::strerror(error)));
}

Outcome<Fd> listen_at(const MetricsPlace& place, Fd fd, const sockaddr* address, socklen_t size) {
  if (!fd) return failed(place, "socket", errno);
  if (bind(fd.get(), address, size) != 0) return failed(place, "bind", errno);
  if (listen(fd.get(), 16) != 0) return failed(place, "listen", errno);
  return fd;
}

Fd stream_socket(int family) {
  return Fd(socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

Outcome<Fd> listen_local(const MetricsPlace& place) {
  const auto address = control_address(place.path);
  if (!address) return failed(place, "bind", ENAMETOOLONG);
  // Removes a socket that a dead daemon left. Any other file at this path is not ours to remove.
  if (socket_at(place.path) != 0 && is_abandoned(place.path)) unlink(place.path.c_str());
  Fd fd = stream_socket(AF_UNIX);
  // bind(2) takes the file's mode from the socket's inode, so nobody can connect before the mode is right.
  if (fd && fchmod(fd.get(), 0600) != 0) return failed(place, "fchmod", errno);
  auto listening =
      listen_at(place, std::move(fd), reinterpret_cast<const sockaddr*>(&*address), sizeof *address);
  if (listening && chmod(place.path.c_str(), 0600) != 0) return failed(place, "chmod", errno);
  return listening;
}

Outcome<Fd> listen_tcp(const MetricsPlace& place) {
  const asio::ip::tcp::endpoint address(asio::ip::make_address(place.address), place.port);
  Fd fd = stream_socket(address.protocol().family());
  const int on = 1;
  if (address.address().is_v6()) setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  return listen_at(place, std::move(fd), address.data(), static_cast<socklen_t>(address.size()));
}

MHD_Result answer(MHD_Connection* connection, unsigned status, const std::string& text, const char* type) {
  MHD_Response* response =
      MHD_create_response_from_buffer(text.size(), const_cast<char*>(text.data()),  // NOLINT
                                      MHD_RESPMEM_MUST_COPY);
  if (response == nullptr) return MHD_NO;
  MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
  MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
  if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
    MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
  const MHD_Result queued = MHD_queue_response(connection, status, response);
  MHD_destroy_response(response);
  return queued;
}

}  // namespace

class MetricsServer::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(asio::io_context& context, MetricsPlace place, MakeText make_text,
       std::chrono::milliseconds connection_time)
      : place_(std::move(place)),
        make_text_(std::move(make_text)),
        connection_time_(connection_time),
        events_(context),
        timer_(context) {}
  ~Impl() { close(); }

  bool start(Fd listening) {
    const auto bound = net::local_endpoint(listening.get());
    port_ = bound && !place_.local() ? bound->port() : 0;
    // libmicrohttpd closes the socket when it stops.
    daemon_ = MHD_start_daemon(MHD_USE_EPOLL, 0, nullptr, nullptr, on_request, this,   //
                               MHD_OPTION_LISTEN_SOCKET, listening.get(),              //
                               MHD_OPTION_CONNECTION_LIMIT, kMaxConnections,           //
                               MHD_OPTION_CONNECTION_MEMORY_LIMIT, kConnectionMemory,  //
                               MHD_OPTION_NOTIFY_CONNECTION, on_connection, this,      //
                               MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1, MHD_OPTION_END);
    if (daemon_ == nullptr) return false;
    (void)listening.release();
    if (place_.local()) file_ = socket_at(place_.path);
    const MHD_DaemonInfo* info = MHD_get_daemon_info(daemon_, MHD_DAEMON_INFO_EPOLL_FD);
    if (info == nullptr) return false;
    events_.assign(info->epoll_fd);
    wait();
    return true;
  }

  void close() {
    timer_.cancel();
    if (events_.is_open()) events_.release();  // libmicrohttpd closes it
    if (daemon_ != nullptr) MHD_stop_daemon(std::exchange(daemon_, nullptr));
    if (file_ != 0 && socket_at(place_.path) == file_) unlink(place_.path.c_str());
    file_ = 0;
  }

  uint16_t port() const { return port_; }
  size_t connections() const { return deadlines_.size(); }

 private:
  static MHD_Result on_request(void* self, MHD_Connection* connection, const char* url, const char* method,
                               const char*, const char*, size_t*, void**) {
    return static_cast<Impl*>(self)->handle(connection, url, method);
  }

  static void on_connection(void* self, MHD_Connection* connection, void**,
                            MHD_ConnectionNotificationCode code) {
    auto& deadlines = static_cast<Impl*>(self)->deadlines_;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
      deadlines[connection] = Clock::now() + static_cast<Impl*>(self)->connection_time_;
    } else {
      deadlines.erase(connection);
    }
  }

  MHD_Result handle(MHD_Connection* connection, std::string_view url, std::string_view method) {
    constexpr const char* kPlain = "text/plain; charset=utf-8";
    if (url != "/metrics")
      return answer(connection, MHD_HTTP_NOT_FOUND, "The metrics are at /metrics.\n", kPlain);
    if (method != MHD_HTTP_METHOD_GET && method != MHD_HTTP_METHOD_HEAD)
      return answer(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "Only GET and HEAD are possible.\n", kPlain);
    return answer(connection, MHD_HTTP_OK, text(), "text/plain; version=0.0.4; charset=utf-8");
  }

  const std::string& text() {
    const Clock::time_point now = Clock::now();
    if (made_ == Clock::time_point{} || now - made_ >= kTextTime) {
      text_ = make_text_();
      made_ = now;
    }
    return text_;
  }

  // libmicrohttpd would keep a client that sends or reads single bytes: it does not count as idle.
  void end_overdue() {
    const Clock::time_point now = Clock::now();
    for (const auto& [connection, deadline] : deadlines_) {
      if (deadline > now) continue;
      const MHD_ConnectionInfo* info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
      if (info != nullptr) shutdown(info->connect_fd, SHUT_RDWR);
    }
  }

  void run() {
    end_overdue();
    // When all its connections are in use, libmicrohttpd stops accepting. It starts again only in the run
    // after the one in which a connection ended. So run again in that case.
    size_t before;
    do {
      before = deadlines_.size();
      MHD_run(daemon_);
    } while (deadlines_.size() < before);
    wait();
  }

  void wait() {
    const auto again = [weak = weak_from_this()](std::error_code error) {
      const auto self = weak.lock();
      if (!error && self != nullptr && self->daemon_ != nullptr) self->run();
    };
    // Either event calls run(), which calls wait() again. Setting a new time cancels the timer's previous
    // wait, and waiting_ prevents a second wait for the descriptor.
    if (!std::exchange(waiting_, true)) {
      events_.async_wait(asio::posix::stream_descriptor::wait_read,
                         [weak = weak_from_this(), again](auto error) {
                           if (const auto self = weak.lock()) self->waiting_ = false;
                           again(error);
                         });
    }
    MHD_UNSIGNED_LONG_LONG ms = 0;
    const bool pending = MHD_get_timeout(daemon_, &ms) == MHD_YES;
    auto time = pending ? std::chrono::milliseconds(ms) : std::chrono::milliseconds::max();
    if (!deadlines_.empty())
      time = std::min(time, std::max(connection_time_ / 8, std::chrono::milliseconds(1)));
    if (time == std::chrono::milliseconds::max()) {
      timer_.cancel();
      return;
    }
    timer_.expires_after(time);
    timer_.async_wait(again);
  }

  const MetricsPlace place_;
  const MakeText make_text_;
  const std::chrono::milliseconds connection_time_;
  asio::posix::stream_descriptor events_;
  asio::steady_timer timer_;
  MHD_Daemon* daemon_ = nullptr;
  uint16_t port_ = 0;
  ino_t file_ = 0;
  bool waiting_ = false;
  std::map<MHD_Connection*, Clock::time_point> deadlines_;
  std::string text_;
  Clock::time_point made_{};
};

Outcome<std::unique_ptr<MetricsServer>> MetricsServer::create(asio::io_context& context,
                                                              const MetricsPlace& place, MakeText make_text,
                                                              std::chrono::milliseconds connection_time) {
  auto listening = place.local() ? listen_local(place) : listen_tcp(place);
  if (!listening) return tl::unexpected(std::move(listening).error());
  auto impl = std::make_shared<Impl>(context, place, std::move(make_text), connection_time);
  if (!impl->start(*std::move(listening))) return failed(place, "libmicrohttpd", errno);
  return std::unique_ptr<MetricsServer>(new MetricsServer(std::move(impl)));
}

MetricsServer::MetricsServer(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
MetricsServer::~MetricsServer() {
  impl_->close();
}
uint16_t MetricsServer::port() const {
  return impl_->port();
}
size_t MetricsServer::connections() const {
  return impl_->connections();
}

}  // namespace nfsrdma::cli
