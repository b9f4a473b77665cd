// SPDX-License-Identifier: Apache-2.0
// A CallSecurity for tests, and its server's end. Its messages have the shape of RPCSEC_GSS (RFC 2203 section
// 5.3), but a checksum is the sum of the bytes, and encryption flips each byte, so a test sees what was sent.
//
//     call       24 bytes; credential {RPCSEC_GSS, 8, service, seq}; verifier {RPCSEC_GSS, 4, sum}
//     reply      XID, REPLY, MSG_ACCEPTED; verifier {RPCSEC_GSS, 4, sum of seq}; accept_stat
//     integrity  opaque{seq, data}, opaque{sum}
//     privacy    opaque{seq, data, sum}, each byte of it flipped
//
// FakeSecurity: used on its transport's loop; a test reads its counters when the calls have ended. The other
// functions: any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tests/unit/transport/support/rpc_bytes.h"
#include "transport/rpc/call_security.h"

namespace nfsrdma::test {

enum class Service : uint32_t { kAuthentication = 1, kIntegrity = 2, kPrivacy = 3 };

class FakeSecurity final : public rpc::CallSecurity {
 public:
  explicit FakeSecurity(Service service);

  ConstBytes header() const override { return header_; }
  size_t reply_overhead() const override;
  size_t verifier_bytes() const override { return 4; }
  bool results_in_clear() const override { return service_ == Service::kAuthentication; }
  Result<> seal(rpc::Call& call) override;
  Result<> open(const rpc::Call& call, rpc::ReceivedReply& reply) override;
  rpc::CallWindow* window() override { return limit ? &*limit : nullptr; }

  // Makes a call with this security of one that was made without: other header, longer reply, and
  // locate_sealed_read() if it has a sink.
  static rpc::Call protect(std::shared_ptr<FakeSecurity> security, rpc::Call call);

  std::optional<rpc::CallWindow> limit;
  // Seals after this many fail.
  size_t seals_left = SIZE_MAX;
  std::vector<uint32_t> sealed;  // the sequence numbers, in order
  size_t opened = 0;             // replies that verified
  size_t refused = 0;            // replies that did not

 private:
  Result<> unwrap(uint32_t sequence, rpc::ReceivedReply& reply) const;

  const Service service_;
  const ByteVector header_;
  uint32_t sequence_ = 0;
};

constexpr size_t kSealedHeaderBytes = 52;       // of a call
constexpr size_t kSealedReplyHeaderBytes = 28;  // of a reply

// As locate_read(), behind a verifier of any length.
rpc::Locate locate_sealed_read(ConstBytes prefix, rpc::BulkPlace& place);

// A received call.
struct OpenedCall {
  uint32_t xid = 0;
  Service service{};
  uint32_t sequence = 0;
  ByteVector arguments;
};
// nullopt: it is not what seal() makes.
std::optional<OpenedCall> open_call(ConstBytes message);

// What is wrong with a reply.
enum class Flaw : uint8_t {
  kNone,
  kVerifier,     // of another sequence number
  kNoVerifier,   // AUTH_NONE
  kData,         // one bit of the results; not seen without wrapping
  kInnerNumber,  // the results are those of another sequence number; not seen without wrapping
  kShort,        // ends within the results; not seen without wrapping
  kHeader        // cannot be decoded
};
// A successful reply.
ByteVector seal_reply(const OpenedCall& call, ConstBytes results, Flaw flaw = Flaw::kNone);
// A reply with another accept_stat and a verifier.
ByteVector seal_failure(const OpenedCall& call, uint32_t accept_stat, Flaw flaw = Flaw::kNone);
// MSG_DENIED, AUTH_ERROR.
ByteVector denial(uint32_t xid, uint32_t auth_stat);

}  // namespace nfsrdma::test
