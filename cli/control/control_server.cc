// SPDX-License-Identifier: Apache-2.0
#include "cli/control/control_server.h"

#include <fmt/core.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <asio/buffer.hpp>
#include <asio/local/stream_protocol.hpp>
#include <asio/read_until.hpp>
#include <asio/steady_timer.hpp>
#include <asio/write.hpp>
#include <cstring>
#include <set>

#include "cli/control/control_path.h"
#include "transport/runtime/fd.h"

namespace nfsrdma::cli {
namespace {

using Local = asio::local::stream_protocol;

// The inode that the path names; 0: no file.
ino_t file_at(const std::string& path) {
  struct stat st {};
  return lstat(path.c_str(), &st) == 0 ? st.st_ino : 0;
}

Outcome<Fd> listen_on(const std::string& path) {
  const auto failed = [&](const char* what, int error) {
    return refuse(ToolExit::kFailed, fmt::format("{}: {}: {}", path, what, std::strerror(error)));
  };
  const std::optional<sockaddr_un> address = control_address(path);
  if (!address) return failed("bind", ENAMETOOLONG);
  Fd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return failed("socket", errno);
  const auto* name = reinterpret_cast<const sockaddr*>(&*address);
  // bind(2) takes the file's mode from the socket's inode, so nobody can connect before the mode is right.
  if (fchmod(fd.get(), 0600) != 0) return failed("fchmod", errno);
  if (bind(fd.get(), name, sizeof *address) != 0) {
    if (errno != EADDRINUSE) return failed("bind", errno);
    if (unlink(path.c_str()) != 0) return failed("unlink", errno);
    if (bind(fd.get(), name, sizeof *address) != 0) return failed("bind", errno);
  }
  if (chmod(path.c_str(), 0600) != 0) return failed("chmod", errno);
  if (listen(fd.get(), 16) != 0) return failed("listen", errno);
  return fd;
}

bool may_ask(int fd) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return false;
  return peer.uid == 0 || peer.uid == geteuid();
}

}  // namespace

class ControlServer::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(asio::io_context& context, std::string path, Handlers handlers, std::chrono::milliseconds io_time)
      : acceptor_(context),
        path_(std::move(path)),
        file_(file_at(path_)),
        handlers_(std::move(handlers)),
        io_time_(io_time) {}

  void start(Fd fd) {
    acceptor_.assign(Local(), fd.release());
    accept();
  }

  void close() {
    if (!acceptor_.is_open()) return;
    std::error_code ignored;
    acceptor_.close(ignored);
    if (file_at(path_) == file_) unlink(path_.c_str());  // else it belongs to a later mount
    handlers_.clear();
    // A connection whose handler has not answered yet stays alive through its Reply.
    for (const std::shared_ptr<Session>& session : std::exchange(sessions_, {})) session->end_if_reading();
  }

  const std::string& path() const { return path_; }
  size_t connections() const { return sessions_.size(); }

 private:
  // One connection: reads a line, calls a handler, writes the answer, closes.
  class Session : public std::enable_shared_from_this<Session> {
   public:
    Session(std::shared_ptr<Impl> server, Local::socket socket)
        : server_(std::move(server)), socket_(std::move(socket)), timer_(socket_.get_executor()) {}

    void start() {
      expire_in(server_->io_time_);
      asio::async_read_until(socket_, asio::dynamic_buffer(in_, kMaxRequestBytes), '\n',
                             [self = shared_from_this()](std::error_code error, size_t size) {
                               if (error) return self->end();
                               self->timer_.cancel();
                               self->handle(std::string_view(self->in_).substr(0, size));
                             });
    }

    void end_if_reading() {
      if (!handling_) end();
    }

   private:
    // The shared state of a Reply's copies: the connection. It is answered at most once, and closed if no
    // copy answers.
    struct Pending {
      std::shared_ptr<Session> session;
      ~Pending() {
        if (session) session->end();
      }
    };

    void handle(std::string_view line) {
      handling_ = true;
      const auto request = decode_request(line);
      if (!request) return write(error_response(request.error().text));
      const auto command = (*request)["command"].get<std::string>();
      const auto found = server_->handlers_.find(command);
      if (found == server_->handlers_.end()) return write(error_response("unknown command " + command));
      watch_hangup();
      const Handler handler = found->second;  // the handler may close the server and so clear the map
      auto pending = std::make_shared<Pending>();
      pending->session = shared_from_this();
      pending_ = pending;
      const auto answer = [pending](Outcome<Json> result) {
        const auto self = std::exchange(pending->session, nullptr);
        if (self == nullptr) return;
        self->write(result ? success_response(*std::move(result)) : error_response(result.error().text));
      };
      handler(*request, Reply(answer, [pending] { return pending->session == nullptr; }));
      if (pending->session != nullptr) tell_later(*pending);
    }

    // The socket's send buffer is empty, so the line fits.
    void tell_later(Pending& pending) {
      const std::string line = encode_line(later_notice());
      const ssize_t n = send(socket_.native_handle(), line.data(), line.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n == static_cast<ssize_t>(line.size())) return;
      pending.session = nullptr;
      end();
    }

    // Frees the connection of a tool that stops waiting.
    void watch_hangup() {
      socket_.async_wait(Local::socket::wait_read, [weak = weak_from_this()](std::error_code error) {
        const auto self = weak.lock();
        if (error || self == nullptr) return;
        char byte;
        const ssize_t n = recv(self->socket_.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
        // An error is a reset: the tool closed without reading the "later" notice.
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) self->end();
      });
    }

    void write(const Json& response) {
      out_ = encode_line(response);
      expire_in(server_->io_time_);
      asio::async_write(socket_, asio::buffer(out_),
                        [self = shared_from_this()](std::error_code, size_t) { self->end(); });
    }

    void expire_in(std::chrono::milliseconds time) {
      timer_.expires_after(time);
      timer_.async_wait([weak = weak_from_this()](std::error_code error) {
        if (error) return;
        if (const auto self = weak.lock()) self->end();
      });
    }

    void end() {
      std::error_code ignored;
      timer_.cancel();
      socket_.close(ignored);
      const auto self = shared_from_this();
      server_->sessions_.erase(self);
      // A remaining copy of the Reply must not keep the connection alive.
      if (const auto pending = pending_.lock()) pending->session = nullptr;
    }

    std::shared_ptr<Impl> server_;
    Local::socket socket_;
    asio::steady_timer timer_;
    std::string in_;
    std::string out_;
    bool handling_ = false;
    std::weak_ptr<Pending> pending_;
  };

  void accept() {
    acceptor_.async_accept([self = shared_from_this()](std::error_code error, Local::socket socket) {
      if (!self->acceptor_.is_open()) return;
      if (!error) {
        self->take(std::move(socket));
        return self->accept();
      }
      // Out of descriptors or memory: try again after a pause to avoid a busy loop.
      self->pause_.expires_after(std::chrono::milliseconds(100));
      self->pause_.async_wait([self](std::error_code cancelled) {
        if (!cancelled && self->acceptor_.is_open()) self->accept();
      });
    });
  }

  void take(Local::socket socket) {
    if (sessions_.size() >= kMaxConnections || !may_ask(socket.native_handle())) return;
    auto session = std::make_shared<Session>(shared_from_this(), std::move(socket));
    sessions_.insert(session);
    session->start();
  }

  Local::acceptor acceptor_;
  asio::steady_timer pause_{acceptor_.get_executor()};
  std::string path_;
  const ino_t file_;
  Handlers handlers_;
  std::chrono::milliseconds io_time_;
  std::set<std::shared_ptr<Session>> sessions_;
};

void ControlServer::LateReplies::add(Reply reply) {
  std::erase_if(replies_, [](const Reply& other) { return other.over(); });
  replies_.push_back(std::move(reply));
}

void ControlServer::LateReplies::answer(const Json& result) {
  for (const Reply& reply : std::exchange(replies_, {})) reply(result);
}

Outcome<std::unique_ptr<ControlServer>> ControlServer::create(asio::io_context& context, std::string path,
                                                              Handlers handlers,
                                                              std::chrono::milliseconds io_time) {
  auto fd = listen_on(path);
  if (!fd) return tl::unexpected(std::move(fd).error());
  auto impl = std::make_shared<Impl>(context, std::move(path), std::move(handlers), io_time);
  impl->start(*std::move(fd));
  return std::unique_ptr<ControlServer>(new ControlServer(std::move(impl)));
}

ControlServer::ControlServer(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
ControlServer::~ControlServer() {
  close();
}
const std::string& ControlServer::path() const {
  return impl_->path();
}
size_t ControlServer::connections() const {
  return impl_->connections();
}
void ControlServer::close() {
  impl_->close();
}

}  // namespace nfsrdma::cli
