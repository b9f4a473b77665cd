// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/transport/support/fake_security.h"

#include <algorithm>
#include <cerrno>
#include <utility>

namespace nfsrdma::test {
namespace {

constexpr uint32_t kFlavor = 6;  // RPCSEC_GSS
constexpr size_t kCredentialEnd = 40;
constexpr size_t kPlainCredential = 24;  // where the credential of call_head() begins

// Depends on the place of each byte.
uint32_t sum_of(ConstBytes bytes) {
  uint32_t sum = 0x811c9dc5;
  for (const std::byte b : bytes) sum = (sum ^ std::to_integer<uint32_t>(b)) * 0x01000193;
  return sum;
}

ByteVector flipped(ConstBytes bytes) {
  ByteVector out(bytes.begin(), bytes.end());
  for (std::byte& b : out) b ^= std::byte{0x5a};
  return out;
}

ByteVector part(ConstBytes bytes, size_t begin, size_t size) {
  const ConstBytes some = bytes.subspan(begin, size);
  return {some.begin(), some.end()};
}

ByteVector padded(ByteVector bytes) {
  bytes.resize(xdr_padded(bytes.size()));
  return bytes;
}

uint32_t size_word(size_t n) {
  return static_cast<uint32_t>(n);
}

// Wrapped data, as the service has it on the wire.
ByteVector wrap(Service service, uint32_t sequence, ConstBytes data) {
  if (service == Service::kAuthentication) return {data.begin(), data.end()};
  const ByteVector body = concat({words({sequence}), data});
  if (service == Service::kIntegrity)
    return concat({words({size_word(body.size())}), padded(body), words({4, sum_of(body)})});
  const ByteVector secret = flipped(concat({body, words({sum_of(body)})}));
  return concat({words({size_word(secret.size())}), padded(secret)});
}

std::optional<ByteVector> unwrapped(Service service, uint32_t sequence, ConstBytes wrapped) {
  if (service == Service::kAuthentication) return ByteVector(wrapped.begin(), wrapped.end());
  if (wrapped.size() < 12) return std::nullopt;
  const bool secret = service == Service::kPrivacy;
  const size_t length = word_at(wrapped, 0);
  if (length < 8 && (secret || length < 4)) return std::nullopt;
  if (length > wrapped.size() || wrapped.size() != 4 + xdr_padded(length) + (secret ? 0 : 8))
    return std::nullopt;
  ByteVector body = part(wrapped, 4, length);
  uint32_t sum = word_at(wrapped, wrapped.size() - 4);
  if (secret) {
    body = flipped(body);
    sum = word_at(body, length - 4);
    body.resize(length - 4);
  }
  if (sum != sum_of(body) || word_at(body, 0) != sequence) return std::nullopt;
  return part(body, 4, body.size() - 4);
}

// All bytes of a message, its bulk items with their padding at their places.
ByteVector whole(const rpc::MessageParts& message) {
  ByteVector out;
  size_t at = 0;
  for (const xdr::Bulk& bulk : message.bulks) {
    out = concat({out, part(message.head, at, bulk.inline_offset - at), bulk.data,
                  ByteVector(xdr_padding(bulk.data.size()))});
    at = bulk.inline_offset;
  }
  return concat({out, part(message.head, at, message.head.size() - at)});
}

Error fake_error(const char* cause) {
  return {.layer = Layer::kSecurity, .recovery = Recovery::kPermanent, .errnum = EKEYEXPIRED, .cause = cause};
}

}  // namespace

rpc::Locate locate_sealed_read(ConstBytes prefix, rpc::BulkPlace& place) {
  if (prefix.size() < 20) return rpc::Locate::kNeedMore;
  const size_t verifier = word_at(prefix, 16);
  if (word_at(prefix, 8) != 0 || verifier > 400) return rpc::Locate::kNone;
  const size_t results = 24 + xdr_padded(verifier);
  if (prefix.size() < results + 8) return rpc::Locate::kNeedMore;
  if (word_at(prefix, results - 4) != 0 || word_at(prefix, results) != 0) return rpc::Locate::kNone;
  place = {results + 8, word_at(prefix, results + 4)};
  return rpc::Locate::kFound;
}

FakeSecurity::FakeSecurity(Service service)
    : service_(service), header_(words({kFlavor, 8, static_cast<uint32_t>(service), 0, kFlavor, 4, 0})) {}

size_t FakeSecurity::reply_overhead() const {
  constexpr size_t kOfService[] = {0, 4, 4 + 16, 4 + 12};
  return kOfService[static_cast<size_t>(service_)];
}

rpc::Call FakeSecurity::protect(std::shared_ptr<FakeSecurity> security, rpc::Call call) {
  const ConstBytes head = call.head;
  const size_t longer = kSealedHeaderBytes - kCallHeaderBytes;
  call.head = concat({head.first(kPlainCredential), security->header(), head.subspan(kCallHeaderBytes)});
  for (xdr::Bulk& bulk : call.bulks) {
    bulk.position += longer;
    bulk.inline_offset += longer;
  }
  call.max_reply_bytes += security->reply_overhead();
  call.sink.expected_offset += security->verifier_bytes();
  if (call.sink.locate != nullptr) call.sink.locate = locate_sealed_read;
  call.security = std::move(security);
  return call;
}

Result<> FakeSecurity::seal(rpc::Call& call) {
  if (seals_left == 0) return fail(fake_error("the context has expired"));
  --seals_left;
  call.sequence = ++sequence_;
  sealed.push_back(call.sequence);
  store_be32(call.head.data() + kPlainCredential + 12, call.sequence);
  const uint32_t sum = sum_of(ConstBytes(call.head).first(kCredentialEnd));
  store_be32(call.head.data() + kSealedHeaderBytes - 4, sum);
  if (service_ == Service::kAuthentication) return {};
  const ConstBytes head = call.head;
  const ByteVector data = part(whole(call), kSealedHeaderBytes, whole(call).size() - kSealedHeaderBytes);
  const ByteVector wrapped = wrap(service_, call.sequence, data);
  call.sealed = std::make_unique<rpc::MessageParts>();
  rpc::MessageParts& out = *call.sealed;
  if (service_ == Service::kPrivacy) {
    out.head = concat({head.first(kSealedHeaderBytes), wrapped});
    return {};
  }
  // Integrity: the bulk items stay where they are.
  out.head = concat({head.first(kSealedHeaderBytes), ConstBytes(wrapped).first(8),
                     head.subspan(kSealedHeaderBytes), ConstBytes(wrapped).last(8)});
  out.bulks = call.bulks;
  for (xdr::Bulk& bulk : out.bulks) {
    bulk.position += 8;
    bulk.inline_offset += 8;
  }
  return {};
}

Result<> FakeSecurity::open(const rpc::Call& call, rpc::ReceivedReply& reply) {
  ++refused;
  const ConstBytes head = reply.head;
  if (head.size() < kSealedReplyHeaderBytes) return fail(fake_error("a short reply"));
  if (word_at(head, 12) != kFlavor || word_at(head, 16) != 4) return fail(fake_error("no verifier"));
  if (word_at(head, 20) != sum_of(words({call.sequence}))) return fail(fake_error("a wrong verifier"));
  if (word_at(head, 24) == 0) NFSRDMA_TRY(unwrap(call.sequence, reply));
  --refused;
  ++opened;
  return {};
}

Result<> FakeSecurity::unwrap(uint32_t sequence, rpc::ReceivedReply& reply) const {
  const ConstBytes head = reply.head;
  const auto results = unwrapped(service_, sequence, head.subspan(kSealedReplyHeaderBytes));
  if (!results) return fail(fake_error("wrong results"));
  reply.head = concat({head.first(kSealedReplyHeaderBytes), *results});
  return {};
}

// ---------------------------------------------------------------------------------------------------------

std::optional<OpenedCall> open_call(ConstBytes message) {
  if (message.size() < kSealedHeaderBytes) return std::nullopt;
  OpenedCall call;
  call.xid = xid_of(message);
  call.service = static_cast<Service>(word_at(message, 32));
  call.sequence = word_at(message, 36);
  if (word_at(message, 24) != kFlavor || word_at(message, 28) != 8 || word_at(message, 40) != kFlavor ||
      word_at(message, 44) != 4)
    return std::nullopt;
  if (word_at(message, 48) != sum_of(message.first(kCredentialEnd))) return std::nullopt;
  auto arguments = unwrapped(call.service, call.sequence, message.subspan(kSealedHeaderBytes));
  if (!arguments) return std::nullopt;
  call.arguments = *std::move(arguments);
  return call;
}

ByteVector seal_failure(const OpenedCall& call, uint32_t accept_stat, Flaw flaw) {
  const uint32_t sequence = call.sequence + (flaw == Flaw::kVerifier ? 1 : 0);
  if (flaw == Flaw::kNoVerifier) return words({call.xid, 1, 0, 0, 0, accept_stat});
  if (flaw == Flaw::kHeader) return words({call.xid, 1, 0, kFlavor, 4000, 0, accept_stat});
  return words({call.xid, 1, 0, kFlavor, 4, sum_of(words({sequence})), accept_stat});
}

ByteVector seal_reply(const OpenedCall& call, ConstBytes results, Flaw flaw) {
  ByteVector data(results.begin(), results.end());
  ByteVector wrapped = wrap(call.service, call.sequence + (flaw == Flaw::kInnerNumber ? 1 : 0), data);
  if (flaw == Flaw::kData) wrapped.at(11) ^= std::byte{1};
  if (flaw == Flaw::kShort) wrapped.resize(wrapped.size() - 4);
  return concat({seal_failure(call, 0, flaw), wrapped});
}

ByteVector denial(uint32_t xid, uint32_t auth_stat) {
  return words({xid, 1, 1, 1, auth_stat});
}

}  // namespace nfsrdma::test
