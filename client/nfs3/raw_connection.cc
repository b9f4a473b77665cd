// SPDX-License-Identifier: Apache-2.0
#include "client/nfs3/raw_connection.h"

#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>

#include <algorithm>
#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "client/core/process_credential.h"
#include "client/nfs3/decoder_guards.h"
#include "client/nfs3/libnfs.h"

namespace nfsrdma::client::nfs3 {
namespace {

// The tag of a library callback: the call, and its connection.
struct Tag {
  RawConnection* connection;
  RawCall* call;
};

// The library reports errors only as text.
Error transport_error(std::string_view text) {
  Error e = system_error(EIO, "connect", std::string(text));
  for (const int known : {ECONNREFUSED, EHOSTUNREACH, ENETUNREACH, ETIMEDOUT, ECONNRESET, EADDRNOTAVAIL}) {
    if (text.find(std::strerror(known)) != std::string_view::npos) e.errnum = known;
  }
  if (e.errnum != EIO) e.cause.clear();
  e.layer = Layer::kTransport;
  e.recovery = Recovery::kReconnect;
  return e;
}

std::string library_error(rpc_context* rpc) {
  const char* said = rpc != nullptr ? rpc_get_error(rpc) : nullptr;
  return said != nullptr && *said != '\0' ? said : "the connection was closed";
}

struct Numeric {
  std::string host;
  int port = 0;
};

Result<Numeric> numeric(const net::Endpoint& server) {
  char host[NI_MAXHOST], port[NI_MAXSERV];
  const int rc = getnameinfo(server.get(), server.length, host, sizeof host, port, sizeof port,
                             NI_NUMERICHOST | NI_NUMERICSERV);
  if (rc != 0) return fail(transport_error(gai_strerror(rc)));
  return Numeric{host, std::atoi(port)};
}

}  // namespace

RawConnection::RawConnection(Loop& loop, Hooks hooks)
    : loop_(loop), hooks_(std::move(hooks)), descriptor_(loop.context()) {}

RawConnection::~RawConnection() {
  destroy();
}

Task<Result<>> RawConnection::connect(net::Endpoint server, Duration limit) {
  const auto self = shared_from_this();
  auto to = numeric(server);
  if (!to) co_return fail(std::move(to.error()));
  static const bool guarded = decoder_is_guarded();
  if (!guarded)
    co_return fail(system_error(ENOTSUP, "connect", "libnfs is not the shared library that it must be"));
  rpc_ = rpc_init_context();
  if (rpc_ == nullptr) co_return fail(system_error(ENOMEM, "connect"));
  connecting_ = std::make_unique<Completion<Result<>>>();
  // The address is numeric, so the library does no blocking name lookup.
  if (rpc_connect_async(rpc_, to->host.c_str(), to->port, on_connect, this) != 0) {
    Error error = transport_error(library_error(rpc_));
    destroy();
    co_return fail(std::move(error));
  }
  // A request must not wait for the acknowledgement of the previous one.
  const int fd = rpc_get_fd(rpc_), on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  descriptor_.assign(fd);
  watch_writes();
  asio::steady_timer timer(loop_.context(), limit);
  timer.async_wait([weak = weak_from_this()](const asio::error_code& cancelled) {
    const auto there = weak.lock();
    if (cancelled || !there || !there->connecting_) return;
    const auto waiting = std::move(there->connecting_);
    Error late = transport_error(std::strerror(ETIMEDOUT));
    waiting->set(fail(std::move(late)));
  });
  auto* waiting = connecting_.get();
  Result<> done = co_await waiting->wait();
  timer.cancel();
  if (!done) {
    destroy();
    co_return done;
  }
  connected_ = true;
  if (auto address = net::local_endpoint(rpc_get_fd(rpc_))) local_ = net::to_string(*address);
  watch_reads();
  co_return done;
}

void RawConnection::on_connect(rpc_context* rpc, int status, void* data, void* tag) {
  auto& self = *static_cast<RawConnection*>(tag);
  if (!self.connecting_) return;
  Result<> done;
  if (status != RPC_STATUS_SUCCESS) {
    done = fail(transport_error(data != nullptr ? static_cast<const char*>(data) : library_error(rpc)));
  }
  self.end_connecting(std::move(done));
}

// The library is on the stack, so the waiting coroutine resumes later.
void RawConnection::end_connecting(Result<> done) {
  loop_.post([self = shared_from_this(), done = std::move(done)]() mutable {
    if (const auto waiting = std::exchange(self->connecting_, nullptr)) waiting->set(std::move(done));
  });
}

void RawConnection::on_reply(rpc_context*, int status, void* data, void* tag) {
  const std::unique_ptr<Tag> mine(static_cast<Tag*>(tag));
  RawConnection& self = *mine->connection;
  if (status == RPC_STATUS_SUCCESS) {
    Result<> taken = mine->call->take != nullptr ? mine->call->take(data, mine->call->into) : Result<>{};
    if (taken) return self.ended_.push_back({mine->call, RawEnd::kAnswered, {}});
    return self.ended_.push_back({mine->call, RawEnd::kRefused, taken.error().cause});
  }
  const bool told = status == RPC_STATUS_ERROR && data != nullptr;
  self.ended_.push_back(
      {mine->call, self.going_ ? RawEnd::kLost : RawEnd::kRefused,
       told ? static_cast<const char*>(data) : std::string("the library gave the call up")});
}

bool RawConnection::set_credential(const rpc::CredentialPtr& credential) {
  if (credential == credential_) return true;
  if (credential_ && std::ranges::equal(credential->encoded(), credential_->encoded())) return true;
  std::vector<uint32_t> groups = credential->groups();
  static const std::string machine = machine_name();
  // The library encodes the credential when it takes a call, and frees the previous credential.
  AUTH* auth = libnfs_authunix_create(machine.c_str(), credential->uid(), credential->gid(),
                                      static_cast<uint32_t>(groups.size()), groups.data());
  if (auth == nullptr) return false;  // the call must not use another user's credential
  rpc_set_auth(rpc_, auth);
  credential_ = credential;
  return true;
}

void RawConnection::send(RawCall& call) {
  bool taken = false;
  if (connected_ && set_credential(call.credential)) {
    rpc_set_next_xid(rpc_, call.xid);
    auto tag = std::make_unique<Tag>(Tag{this, &call});
    taken = call.issue(rpc_, on_reply, call.args, tag.get()) == 0;
    if (taken) (void)tag.release();
  }
  if (!taken) {
    ended_.push_back({&call, connected_ ? RawEnd::kRefused : RawEnd::kLost, library_error(rpc_)});
    loop_.post([self = shared_from_this()] { self->deliver(); });
    return;
  }
  if (!in_library_ && !delivering_) flush();
}

int RawConnection::call_library(int events) {
  const CountFragments counted(fragments_);
  in_library_ = true;
  const int rc = rpc_service(rpc_, events);
  in_library_ = false;
  return rc;
}

void RawConnection::flush() {
  if (rpc_ == nullptr || writing_) return;
  const int rc = call_library(POLLOUT);
  // A call must not end within send() (Hooks::on_end), so the loss is reported later.
  if (rc != 0) {
    return loop_.post([self = shared_from_this(), why = library_error(rpc_)] {
      if (self->rpc_ != nullptr) self->lost(why);
    });
  }
  if (!ended_.empty()) loop_.post([self = shared_from_this()] { self->deliver(); });
  if ((rpc_which_events(rpc_) & POLLOUT) != 0) watch_writes();
}

void RawConnection::watch_reads() {
  descriptor_.async_wait(asio::posix::stream_descriptor::wait_read,
                         [self = shared_from_this()](const asio::error_code& cancelled) {
                           if (cancelled || self->rpc_ == nullptr) return;
                           self->service(POLLIN);
                           if (self->rpc_ != nullptr) self->watch_reads();
                         });
}

void RawConnection::watch_writes() {
  if (std::exchange(writing_, true)) return;
  descriptor_.async_wait(asio::posix::stream_descriptor::wait_write,
                         [self = shared_from_this()](const asio::error_code& cancelled) {
                           self->writing_ = false;
                           if (!cancelled && self->rpc_ != nullptr) self->service(POLLOUT);
                         });
}

void RawConnection::service(int events) {
  if (rpc_ == nullptr || in_library_) return;
  const int rc = call_library(events);
  if (rc != 0) {
    const std::string text = library_error(rpc_);
    if (connected_) return lost(text);
    return end_connecting(fail(transport_error(text)));
  }
  if (connected_ && (rpc_which_events(rpc_) & POLLOUT) != 0) watch_writes();
  deliver();
}

void RawConnection::deliver() {
  if (ended_.empty()) return;
  const auto self = shared_from_this();
  // Calls made by these hooks are sent together.
  delivering_ = true;
  while (!ended_.empty()) {
    std::vector<Ended> ended = std::exchange(ended_, {});
    for (Ended& e : ended) hooks_.on_end(*e.call, e.end, std::move(e.text));
  }
  delivering_ = false;
  if (connected_) flush();
}

void RawConnection::destroy() {
  if (rpc_ == nullptr) return;
  connected_ = false;
  going_ = true;
  if (descriptor_.is_open()) descriptor_.release();  // the library closes the descriptor
  rpc_destroy_context(std::exchange(rpc_, nullptr));
}

void RawConnection::lost(std::string why) {
  const auto self = shared_from_this();
  // Calls that the library failed while it closed the connection have no reply: they are lost, not refused.
  for (Ended& e : ended_) {
    if (e.end == RawEnd::kRefused) e.end = RawEnd::kLost;
  }
  destroy();
  deliver();
  hooks_.on_lost(std::move(why));
}

void RawConnection::close(const char* why) {
  const auto self = shared_from_this();
  if (rpc_ == nullptr) return;
  destroy();
  for (Ended& e : ended_) {
    if (e.end == RawEnd::kRefused) e.end = RawEnd::kLost;
    e.text = why;
  }
  deliver();
}

}  // namespace nfsrdma::client::nfs3
