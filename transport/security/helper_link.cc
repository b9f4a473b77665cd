// SPDX-License-Identifier: Apache-2.0
#include "transport/security/helper_link.h"

#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "transport/net/socket_io.h"
#include "transport/security/helper_messages.h"
#include "transport/security/packets.h"

namespace nfsrdma::security {
namespace {

Error no_helper(int errnum, const char* cause) {
  return {.layer = Layer::kSecurity,
          .recovery = Recovery::kRetry,
          .errnum = errnum,
          .op = "Kerberos",
          .cause = cause};
}

// EAGAIN: the helper has as many exchanges before it as the socket holds.
Error not_given(int errnum) {
  if (errnum == EAGAIN) return no_helper(EAGAIN, "the Kerberos helper takes no more requests");
  Error error = no_helper(EIO, "the Kerberos helper cannot be reached");
  // Its keeper would have started another one, and nobody starts another keeper.
  if (errnum == EPIPE || errnum == ENOTCONN || errnum == ECONNREFUSED || errnum == ECONNRESET)
    error.cause = "the Kerberos helper has died; unmount and mount again";
  error.recovery = Recovery::kPermanent;
  return error;
}

class HelperExchange final : public Initiation {
 public:
  HelperExchange(Fd socket, ContextRequest request, Duration deadline)
      : socket_(std::move(socket)), request_(encode(request)), deadline_(deadline) {}

  Task<Result<InitiationStep>> step(ByteVector token) override {
    const ByteVector packet = request_.empty() ? std::move(token) : std::exchange(request_, {});
    // An empty packet would be the end of the exchange.
    if (packet.empty()) co_return fail(no_helper(EPROTO, "the server's reply has no token"));
    if (packet.size() > kMaxTokenBytes) co_return fail(no_helper(EPROTO, "the server's token is too long"));
    if (Result<> sent = send_packet(socket_.get(), packet); !sent) co_return fail(gone());
    auto wait = std::make_shared<net::SocketWait>(*Loop::current(), socket_.get());
    net::SocketWait::arm(wait, asio::posix::stream_descriptor::wait_read, Clock::now() + deadline_);
    if (co_await wait->wait() != net::SocketWait::End::kReady)
      co_return fail(no_helper(ETIMEDOUT, "the Kerberos helper did not answer in time"));
    const Result<ByteVector> received = receive_packet(socket_.get(), kMaxHelperMessage);
    if (!received || received->empty()) co_return fail(gone());
    Result<HelperAnswer> answer = decode_answer(*received);
    if (!answer) co_return fail(std::move(answer.error()));
    if (answer->kind == AnswerKind::kFailed) co_return fail(error_of(*std::move(answer)));
    InitiationStep step{std::move(answer->token), std::nullopt};
    if (answer->kind == AnswerKind::kDone) step.context = std::move(answer->context);
    co_return step;
  }

 private:
  // Also if the helper ended itself because the KDC did not answer within its limit.
  static Error gone() {
    return no_helper(EHOSTUNREACH, "the Kerberos helper ended without an answer; does the KDC answer?");
  }

  const Fd socket_;
  ByteVector request_;  // until it is sent
  const Duration deadline_;
};

}  // namespace

Result<std::unique_ptr<Initiation>> HelperLink::begin(ContextRequest request) {
  Result<std::pair<Fd, Fd>> pair = make_packet_pair(SOCK_NONBLOCK);
  if (!pair) return fail(std::move(pair.error()));
  const Result<> given = send_exchange(socket_.get(), pair->second.get(), request.user);
  if (!given) return fail(not_given(given.error().errnum));
  return std::make_unique<HelperExchange>(std::move(pair->first), std::move(request), deadline_);
}

}  // namespace nfsrdma::security
