// SPDX-License-Identifier: Apache-2.0
#include "proxy.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace chaos {

namespace {

constexpr size_t kReadSize = 1 << 20;
constexpr size_t kOutLimit = 16 << 20;  // if a side does not read, the proxy stops reading from the other one
constexpr size_t kMark = 4;
constexpr uint32_t kLast = 0x80000000;

void unhurried(int fd) {
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

// Closes with RST: data in flight is lost, as when a host crashes.
void reset_connection(Fd& fd) {
  const linger hard{1, 0};
  setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
  fd.reset();
}

std::string mark(uint32_t length, bool last) {
  const uint32_t word = htonl(length | (last ? kLast : 0));
  std::string bytes(kMark, '\0');
  std::memcpy(bytes.data(), &word, kMark);
  return bytes;
}

[[noreturn]] void die(const std::string& what) {
  throw std::runtime_error(what + ": " + std::strerror(errno));
}

}  // namespace

sockaddr_in address_of(const std::string& host, uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  if (inet_pton(AF_INET, host.c_str(), &address.sin_addr) != 1)
    throw std::runtime_error("not an IPv4 address: " + host);
  return address;
}

Fd& Fd::operator=(Fd&& other) noexcept {
  reset();
  fd_ = other.release();
  return *this;
}
void Fd::reset() {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}
int Fd::release() {
  const int fd = fd_;
  fd_ = -1;
  return fd;
}

bool RecordReader::next(std::string& record) {
  size_t at = 0;
  bool complete = false;
  while (!complete && buffer_.size() - at >= kMark) {
    uint32_t word = 0;
    std::memcpy(&word, buffer_.data() + at, kMark);
    word = ntohl(word);
    const size_t length = word & ~kLast;
    if (buffer_.size() - at - kMark < length) break;
    partial_.append(buffer_, at + kMark, length);
    at += kMark + length;
    complete = (word & kLast) != 0;
  }
  buffer_.erase(0, at);
  if (!complete) return false;
  record = std::move(partial_);
  partial_.clear();
  return true;
}

Proxy::Proxy(uint16_t port, const sockaddr_in& target, const std::string& control_path, bool raw)
    : port_(port), target_(target), raw_(raw) {
  listen_again();
  control_listener_ = Fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (control_path.size() >= sizeof(address.sun_path))
    throw std::runtime_error("the control socket's path is too long");
  std::memcpy(address.sun_path, control_path.data(), control_path.size());
  if (bind(control_listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0 ||
      listen(control_listener_.get(), 16) != 0) {
    die("control socket " + control_path);
  }
}

void Proxy::listen_again() {
  listener_ = Fd(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int on = 1;
  setsockopt(listener_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  sockaddr_in address = address_of("127.0.0.1", port_);
  if (bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0 ||
      listen(listener_.get(), 128) != 0) {
    die("listen");
  }
  socklen_t length = sizeof(address);
  getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &length);
  port_ = ntohs(address.sin_port);
}

void Proxy::run() {
  while (!quit_) loop_once();
}

int Proxy::timeout_ms() const {
  Clock::time_point next = std::min({next_cut_, stalled_ ? stalled_until_ : Clock::time_point::max()});
  if (!listener_) next = std::min(next, refuse_until_);
  for (const auto& c : connections_) {
    for (const Pipe* pipe : {&c->to_server, &c->to_client}) {
      if (!pipe->delayed.empty()) next = std::min(next, pipe->delayed.front().first);
    }
  }
  if (next == Clock::time_point::max()) return -1;
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(next - Clock::now()).count();
  return static_cast<int>(std::clamp<long>(left + 1, 0, 60000));
}

void Proxy::loop_once() {
  std::vector<pollfd> fds;
  // Leave out a descriptor without events to wait for: poll would report its hang-up again and again.
  const auto watch = [&fds](int fd, int events) {
    fds.push_back({events != 0 ? fd : -1, static_cast<short>(events), 0});
  };
  watch(listener_ ? listener_.get() : -1, POLLIN);
  watch(control_listener_.get(), POLLIN);
  for (const auto& control : controls_) watch(control->fd.get(), POLLIN);
  for (const auto& c : connections_) {
    const bool room_up = c->to_server.out.size() < kOutLimit && !c->to_server.finished && !stalled_;
    const bool room_down = c->to_client.out.size() < kOutLimit && !c->to_client.finished && !stalled_;
    watch(c->client.get(), (room_up ? POLLIN : 0) | (!stalled_ && !c->to_client.out.empty() ? POLLOUT : 0));
    watch(c->server.get(), (room_down && !c->connecting ? POLLIN : 0) |
                               (c->connecting || (!stalled_ && !c->to_server.out.empty()) ? POLLOUT : 0));
  }
  const size_t control_count = controls_.size();
  const size_t connection_count = connections_.size();
  poll(fds.data(), fds.size(), timeout_ms());

  if (stalled_ && Clock::now() >= stalled_until_) stalled_ = false;
  if (!listener_ && Clock::now() >= refuse_until_) listen_again();
  for (size_t i = 0; i < control_count; ++i) {
    if (fds[2 + i].revents != 0) read_control(*controls_[i]);
  }
  std::erase_if(controls_, [](const auto& control) { return !control->fd; });
  for (size_t i = 0; i < connection_count; ++i) {
    Connection& c = *connections_[i];
    const short client = fds[2 + control_count + 2 * i].revents;
    const short server = fds[2 + control_count + 2 * i + 1].revents;
    if (c.connecting && server != 0) {
      int error = 0;
      socklen_t length = sizeof(error);
      getsockopt(c.server.get(), SOL_SOCKET, SO_ERROR, &error, &length);
      c.connecting = false;
      if (error != 0) c.cut = true;
    }
    if (stalled_ || c.cut) continue;
    if (client & (POLLIN | POLLHUP | POLLERR) && !c.to_server.finished) read_from(c, true);
    if (server & (POLLIN | POLLHUP | POLLERR) && !c.connecting && !c.to_client.finished) read_from(c, false);
    release_delayed(c);
    if (!c.connecting && !c.cut) flush(c, false);
    if (!c.cut) flush(c, true);
  }
  random_cuts();
  close_finished();
  if (fds[1].revents != 0) {
    controls_.push_back(std::make_unique<Control>());
    controls_.back()->fd = Fd(accept4(control_listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  }
  if (listener_ && fds[0].revents != 0) accept_client();
}

void Proxy::accept_client() {
  Fd client(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!client) return;
  auto c = std::make_unique<Connection>();
  unhurried(client.get());
  c->client = std::move(client);
  c->server = Fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  unhurried(c->server.get());
  if (connect(c->server.get(), reinterpret_cast<const sockaddr*>(&target_), sizeof(target_)) != 0 &&
      errno != EINPROGRESS) {
    c->cut = true;
  }
  ++statistics_.connections;
  connections_.push_back(std::move(c));
}

void Proxy::read_from(Connection& c, bool from_client) {
  static std::string chunk(kReadSize, '\0');
  Pipe& pipe = from_client ? c.to_server : c.to_client;
  const ssize_t count = read(from_client ? c.client.get() : c.server.get(), chunk.data(), chunk.size());
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (count < 0) {
    c.cut = true;
    return;
  }
  if (count == 0) {
    pipe.finished = true;
    c.cut_after_flush = true;
    return;
  }
  if (raw_) {
    pipe.out.append(chunk.data(), static_cast<size_t>(count));
    return;
  }
  pipe.reader.feed(chunk.data(), static_cast<size_t>(count));
  std::string record;
  while (!c.cut && pipe.reader.next(record)) relay(c, from_client, std::move(record));
}

void Proxy::relay(Connection& c, bool from_client, std::string record) {
  const auto message = parse_message(record);
  std::vector<uint32_t> operations;
  bool is_callback = false;
  if (message && from_client && message->is_call) {
    operations = message->operations;
    c.outstanding[message->xid] = operations;
    ++statistics_.calls;
    if (!operations.empty()) ++statistics_.compounds;
    for (const uint32_t operation : operations) ++statistics_.operations[operation_name(operation)];
    statistics_.largest_read = std::max(statistics_.largest_read, message->read_bytes);
    statistics_.largest_write = std::max(statistics_.largest_write, message->write_bytes);
  } else if (message && !from_client && !message->is_call) {
    ++statistics_.replies;
    const auto call = c.outstanding.find(message->xid);
    if (call != c.outstanding.end()) {
      operations = std::move(call->second);
      c.outstanding.erase(call);
    }
  } else {
    is_callback = true;  // messages of the back channel are passed on unchanged
    ++statistics_.callbacks;
  }
  const Verdict verdict =
      is_callback ? Verdict{} : faults_.judge(from_client ? Direction::Call : Direction::Reply, operations);
  Pipe& pipe = from_client ? c.to_server : c.to_client;
  switch (verdict.action) {
    case Action::Cut: c.cut = true; return;
    case Action::CutMiddle:
      append(c, !from_client, record.substr(0, faults_.random(static_cast<uint32_t>(record.size()))), 1);
      flush(c, !from_client);
      c.cut = true;
      return;
    case Action::Drop: return;
    case Action::Stall:
      stalled_ = true;
      stalled_until_ = Clock::time_point::max();
      return append(c, !from_client, record, 0);
    case Action::Oversize: return append(c, !from_client, record, verdict.parameter);
    case Action::Duplicate: append(c, !from_client, record, 0); break;
    default: faults_.spoil(record, verdict); break;
  }
  const uint32_t wait_ms = verdict.action == Action::Delay ? verdict.parameter : from_client ? 0 : delay_ms_;
  if (wait_ms > 0) {
    pipe.delayed.emplace_back(Clock::now() + std::chrono::milliseconds(wait_ms), std::move(record));
  } else if (!pipe.delayed.empty()) {
    pipe.delayed.emplace_back(pipe.delayed.back().first, std::move(record));  // keeps the order
  } else {
    append(c, !from_client, record, 0);
  }
}

void Proxy::append(Connection& c, bool to_client, const std::string& record, uint32_t announce_more) {
  Pipe& pipe = to_client ? c.to_client : c.to_server;
  if (announce_more > 0 || fragment_ == 0 || !to_client) {
    pipe.out += mark(static_cast<uint32_t>(record.size()) + announce_more, true) + record;
    return;
  }
  for (size_t at = 0; at < record.size() || at == 0;) {
    const size_t length = std::min<size_t>(record.size() - at, 1 + faults_.random(fragment_));
    pipe.out += mark(static_cast<uint32_t>(length), at + length == record.size()) + record.substr(at, length);
    at += std::max<size_t>(length, 1);
  }
}

void Proxy::release_delayed(Connection& c) {
  for (const bool to_client : {false, true}) {
    auto& delayed = (to_client ? c.to_client : c.to_server).delayed;
    while (!delayed.empty() && delayed.front().first <= Clock::now()) {
      append(c, to_client, delayed.front().second, 0);
      delayed.pop_front();
    }
  }
}

void Proxy::flush(Connection& c, bool to_client) {
  std::string& out = to_client ? c.to_client.out : c.to_server.out;
  if (out.empty()) return;
  const ssize_t count =
      send(to_client ? c.client.get() : c.server.get(), out.data(), out.size(), MSG_NOSIGNAL);
  if (count > 0) out.erase(0, static_cast<size_t>(count));
  if (count < 0 && errno != EAGAIN && errno != EINTR) c.cut = true;
}

void Proxy::random_cuts() {
  if (next_cut_ > Clock::now()) return;
  for (const auto& c : connections_) {
    // Half of the time cuts in the middle of the data that is being sent.
    for (const bool to_client : {true, false}) {
      std::string& out = to_client ? c->to_client.out : c->to_server.out;
      if (out.empty() || c->connecting || faults_.random(2) == 0) continue;
      out.resize(faults_.random(static_cast<uint32_t>(out.size())));
      flush(*c, to_client);
    }
    c->cut = true;
  }
  next_cut_ =
      Clock::now() + std::chrono::milliseconds(cut_min_ms_ + faults_.random(cut_max_ms_ - cut_min_ms_ + 1));
}

void Proxy::close_finished() {
  std::erase_if(connections_, [this](const auto& c) {
    const bool drained = c->to_client.out.empty() && c->to_client.delayed.empty() &&
                         c->to_server.out.empty() && c->to_server.delayed.empty();
    if (c->cut) {
      ++statistics_.cuts;
      reset_connection(c->client);
      reset_connection(c->server);
      return true;
    }
    return c->cut_after_flush && drained && !stalled_;
  });
}

}  // namespace chaos
