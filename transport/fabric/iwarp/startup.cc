// SPDX-License-Identifier: Apache-2.0
#include "transport/fabric/iwarp/startup.h"

#include <sys/socket.h>

#include <cerrno>

#include "transport/fabric/iwarp/send_queue.h"

namespace nfsrdma::fabric::iwarp {
namespace {

Error cancelled_error() {
  return {.layer = Layer::kTransport,
          .recovery = Recovery::kInterrupted,
          .errnum = EINTR,
          .op = "MPA",
          .cause = "cancelled"};
}

}  // namespace

Task<Result<>> StartupSocket::ready(For what) {
  if (cancelled_) co_return fail(cancelled_error());
  using Descriptor = asio::posix::stream_descriptor;
  auto wait = std::make_shared<net::SocketWait>(loop_, socket_.get());
  wait_ = wait;
  net::SocketWait::arm(wait, what == For::kRead ? Descriptor::wait_read : Descriptor::wait_write, deadline_);
  const net::SocketWait::End end = co_await wait->wait();
  wait_.reset();
  if (end == net::SocketWait::End::kTimeout) co_return fail(startup_error("no answer in time", ETIMEDOUT));
  if (end == net::SocketWait::End::kCancelled) co_return fail(cancelled_error());
  co_return Result<>{};
}

void StartupSocket::cancel() {
  cancelled_ = true;
  if (const auto wait = wait_) wait->finish(net::SocketWait::End::kCancelled);
}

Task<Result<>> StartupSocket::read(MutableBytes into) {
  while (!into.empty()) {
    const ssize_t n = ::recv(socket_.get(), into.data(), into.size(), 0);
    if (n > 0) {
      into = into.subspan(static_cast<size_t>(n));
    } else if (n == 0) {
      co_return fail(startup_error("the peer closed the connection before RDMA began", ECONNRESET));
    } else if (errno == EAGAIN) {
      NFSRDMA_CO_TRY(co_await ready(For::kRead));
    } else if (errno != EINTR) {
      co_return fail(startup_error({}, errno));
    }
  }
  co_return Result<>{};
}

Task<Result<>> StartupSocket::write(ByteVector bytes) {
  ConstBytes left = bytes;
  while (!left.empty()) {
    const ssize_t n = ::send(socket_.get(), left.data(), left.size(), MSG_NOSIGNAL);
    if (n >= 0) {
      left = left.subspan(static_cast<size_t>(n));
    } else if (errno == EAGAIN) {
      NFSRDMA_CO_TRY(co_await ready(For::kWrite));
    } else if (errno != EINTR) {
      co_return fail(startup_error({}, errno));
    }
  }
  co_return Result<>{};
}

Task<Result<StartupFrame>> StartupSocket::read_frame(StartupFrame::Kind kind) {
  ByteVector frame(kFrameHeaderBytes);
  NFSRDMA_CO_TRY(co_await read(frame));
  const Result<size_t> more = private_data_bytes(frame, kind);
  if (!more) co_return fail(more.error());
  frame.resize(kFrameHeaderBytes + *more);
  const MutableBytes rest = MutableBytes(frame).subspan(kFrameHeaderBytes);
  NFSRDMA_CO_TRY(co_await read(rest));
  co_return decode_startup(frame, kind);
}

Task<Result<StartupFrame>> StartupSocket::read_request() {
  return read_frame(StartupFrame::Kind::kRequest);
}

Task<Result<Agreed>> StartupSocket::initiate(StartupTerms terms, ByteVector* private_data) {
  ByteVector request = encode(make_request(terms));
  NFSRDMA_CO_TRY(co_await write(std::move(request)));
  Result<StartupFrame> reply = co_await read_frame(StartupFrame::Kind::kReply);
  if (!reply) co_return fail(std::move(reply).error());
  auto agreed = judge_reply(terms, *reply);
  if (!agreed) {
    if (agreed.error().terminate) {
      ByteVector last = terminate_frame(*agreed.error().terminate, terms.crc || reply->crc);
      (void)co_await write(std::move(last));
    }
    co_return fail(std::move(agreed.error().error));
  }
  *private_data = std::move(reply->private_data);
  co_return *agreed;
}

ByteVector terminate_frame(TermCode code, bool crc) {
  SendQueue queue({kMaxUlpduBytes, crc});
  queue.finish(Terminate{code, {}, {}, {}});
  ByteVector frame;
  for (const iovec& piece : queue.front()) {
    const auto* data = static_cast<const std::byte*>(piece.iov_base);
    frame.insert(frame.end(), data, data + piece.iov_len);
  }
  return frame;
}

}  // namespace nfsrdma::fabric::iwarp
