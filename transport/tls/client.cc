// SPDX-License-Identifier: Apache-2.0
#include "transport/tls/client.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <random>
#include <utility>

#include "transport/tls/failure.h"
#include "transport/tls/starttls.h"
#include "xdr/record_mark.h"

namespace nfsrdma::tls {
namespace {

Error lost(int errnum, const char* cause) {
  return {.layer = Layer::kTransport,
          .recovery = Recovery::kReconnect,
          .errnum = errnum,
          .op = "TLS",
          .cause = cause};
}

}  // namespace

void Client::cancel() {
  cancelled_ = true;
  // finish() resumes the waiter, which may destroy this object: nothing may follow.
  if (const auto wait = wait_) wait->finish(net::SocketWait::End::kCancelled);
}

Task<Result<>> Client::ready(int fd, bool to_write, TimePoint deadline) {
  using Wait = net::SocketWait;
  if (cancelled_) co_return fail(make_error("TLS", "cancelled", Recovery::kInterrupted, EINTR));
  const auto wait = std::make_shared<Wait>(loop_, fd);
  wait_ = wait;
  Wait::arm(wait,
            to_write ? asio::posix::stream_descriptor::wait_write : asio::posix::stream_descriptor::wait_read,
            deadline);
  const Wait::End end = co_await wait->wait();
  wait_.reset();
  if (end == Wait::End::kReady) co_return Result<>{};
  if (end == Wait::End::kTimeout) co_return fail(lost(ETIMEDOUT, "the server does not answer"));
  co_return fail(make_error("TLS", "cancelled", Recovery::kInterrupted, EINTR));
}

// Takes no byte behind `into`: the next ones may belong to TLS.
Task<Result<>> Client::receive(int fd, MutableBytes into, TimePoint deadline) {
  while (!into.empty()) {
    const ssize_t n = ::recv(fd, into.data(), into.size(), 0);
    if (n == 0)
      co_return fail(lost(ECONNRESET, "the server closed the connection when it was asked for TLS"));
    if (n > 0) {
      into = into.subspan(static_cast<size_t>(n));
    } else if (errno == EAGAIN) {
      auto waiting = ready(fd, false, deadline);
      NFSRDMA_CO_TRY(co_await std::move(waiting));
    } else if (errno != EINTR) {
      co_return fail(lost(errno, ""));
    }
  }
  co_return Result<>{};
}

// The whole probe fits the empty buffer of a new connection.
Task<Result<>> Client::ask(int fd, TimePoint deadline) {
  const auto xid = static_cast<rpc::Xid>(std::random_device{}());
  const ByteVector call = probe(xid, options_.program, options_.version);
  if (::send(fd, call.data(), call.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(call.size()))
    co_return fail(lost(errno, ""));
  std::array<std::byte, rpc::kRecordMarkBytes> mark_bytes{};
  auto receiving_mark = receive(fd, mark_bytes, deadline);
  NFSRDMA_CO_TRY(co_await std::move(receiving_mark));
  const rpc::RecordMark mark = rpc::decode_record_mark(mark_bytes);
  if (!mark.last || mark.length > kMostAnswerBytes)
    co_return fail(make_error("TLS", "the server's answer cannot be understood"));
  ByteVector record(mark.length);
  auto receiving = receive(fd, record, deadline);
  NFSRDMA_CO_TRY(co_await std::move(receiving));
  switch (judge(record, xid)) {
    case Answer::kOffered: co_return Result<>{};
    case Answer::kNotOffered: {
      Error refused = make_error("TLS", "the server does not offer TLS");
      refused.status = kNoTlsOffered;
      co_return fail(std::move(refused));
    }
    case Answer::kBroken: break;
  }
  co_return fail(make_error("TLS", "the server's answer cannot be understood"));
}

Task<Result<std::unique_ptr<Stream>>> Client::secure(int fd) {
  cancelled_ = false;
  Result<Context> context = Context::client(options_.settings);
  if (!context) co_return fail(std::move(context).error());
  const TimePoint deadline = Clock::now() + options_.timeout;
  auto asking = ask(fd, deadline);
  if (Result<> offered = co_await std::move(asking); !offered) co_return fail(std::move(offered).error());
  Result<std::unique_ptr<Stream>> stream = Stream::connect(*context, fd, options_.host);
  if (!stream) co_return fail(std::move(stream).error());
  for (;;) {
    const Result<Stream::Step> step = (*stream)->handshake();
    if (!step) co_return fail(step.error());
    if (*step == Stream::Step::kDone) co_return stream;
    auto waiting = ready(fd, *step == Stream::Step::kWantsWrite, deadline);
    if (Result<> waited = co_await std::move(waiting); !waited) co_return fail(std::move(waited).error());
  }
}

}  // namespace nfsrdma::tls
