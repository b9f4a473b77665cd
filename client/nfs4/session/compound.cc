// SPDX-License-Identifier: Apache-2.0
#include "client/nfs4/session/compound.h"

#include <algorithm>
#include <array>
#include <cerrno>

#include "client/nfs4/session/bulk_locators.h"
#include "transport/runtime/log.h"

namespace nfsrdma::client::nfs4 {
namespace {

// Encodes words that are the same in every call.
template <size_t Count>
constexpr std::array<std::byte, 4 * Count> encoded(const std::array<uint32_t, Count>& words) {
  std::array<std::byte, 4 * Count> bytes{};
  for (size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::byte>(words[i / 4] >> (24 - 8 * (i % 4)));
  return bytes;
}

// The RPC call message before the credential (RFC 5531 section 9): XID (the transport writes it), CALL, RPC
// version, program, version, procedure.
constexpr auto kCallHead = encoded(std::array<uint32_t, 6>{0, rpc::CALL, rpc::kRpcVersion, nfs4::NFS4_PROGRAM,
                                                           nfs4::NFS_V4, nfs4::NFSPROC4_COMPOUND});
// The verifier (AUTH_NONE, empty) and COMPOUND4args: an empty tag, minorversion, no operations yet.
constexpr auto kBehindCredential = encoded(std::array<uint32_t, 5>{rpc::AUTH_NONE, 0, 0, 1, 0});
constexpr size_t kNoVerifierBytes = 8;
// SEQUENCE. finish() writes its arguments: sessionid[16], sequenceid, slotid, highest_slotid, cachethis.
constexpr auto kSequence = encoded(std::array<uint32_t, 9>{nfs4::OP_SEQUENCE});

}  // namespace

CompoundBuilder::CompoundBuilder(const rpc::Credential& credential, const char* op, bool sequence,
                                 const std::shared_ptr<rpc::CallSecurity>& security)
    : encoder_(call_.head, &call_.bulks) {
  call_.op = op;
  call_.max_reply_bytes = kReplyHeadBytes;
  call_.head.reserve(512);
  batch_.emplace(encoder_);
  encoder_.raw(kCallHead);
  if (security == nullptr) [[likely]] {
    encoder_.raw(credential.encoded());
    encoder_.raw(kBehindCredential);
  } else {
    encoder_.raw(security->header());
    encoder_.raw(std::span(kBehindCredential).subspan(kNoVerifierBytes));
    call_.security = security;
    call_.max_reply_bytes += security->reply_overhead();
    verifier_bytes_ = security->verifier_bytes();
  }
  count_offset_ = encoder_.inline_bytes() - 4;
  if (!sequence) return;
  sequence_offset_ = encoder_.inline_bytes() + 4;
  encoder_.raw(kSequence);
  count<nfs4::SEQUENCE4args>({});
}

void CompoundBuilder::expect_read(Slice destination, PipePool* pipes) {
  call_.sink = {std::move(destination), locate_read_data, kReadDataOffset + verifier_bytes_, pipes};
}

void CompoundBuilder::expect_read_with_open(Slice destination) {
  call_.sink = {std::move(destination), locate_data_read_with_open, kDataReadWithOpenOffset + verifier_bytes_,
                nullptr};
}

void CompoundBuilder::note(const char* operation, const std::string& names) {
  if (!trace_.empty()) trace_ += ' ';
  trace_ += operation + names;
}

rpc::Call CompoundBuilder::finish(const SlotTicket* ticket, bool cache_this) {
  batch_.reset();
  std::byte* const head = call_.head.data();
  store_be32(head + count_offset_, operations_);
  if (ticket != nullptr) {
    std::byte* const sequence = head + sequence_offset_;
    std::ranges::copy(ticket->session.data, sequence);
    store_be32(sequence + 16, ticket->sequence);
    store_be32(sequence + 20, ticket->slot);
    store_be32(sequence + 24, ticket->highest);
    store_be32(sequence + 28, cache_this ? 1 : 0);
  }
  return std::move(call_);
}

Result<CompoundReply> CompoundReply::parse(rpc::Reply reply, const Slice& sink, const char* op,
                                           bool sequence) {
  CompoundReply r(std::move(reply), op);
  Parts& p = *r.parts_;
  if (p.reply.placed) p.decoder.set_bulk(sink.bytes.first(p.reply.bulk_length));
  ConstBytes tag;
  if (!p.decoder(p.status) || !p.decoder.opaque(tag, nfs4::kMaxTag) || !p.decoder(p.left)) {
    return fail(r.malformed("COMPOUND"));
  }
  p.results = p.left;
  if (!sequence || p.left == 0) return r;
  auto res = r.take_any<nfs4::SEQUENCE4res>();
  if (!res) return fail(std::move(res.error()));
  p.sequence = *std::move(res);
  return r;
}

Error CompoundReply::exhausted(const char* op) const {
  // RFC 8881 section 2.3: processing stops at the first error, which is also the COMPOUND's status.
  if (!ok()) return nfs4::nfs_error(status(), parts_->op);
  return {.layer = Layer::kXdr,
          .recovery = Recovery::kPermanent,
          .errnum = EIO,
          .op = op,
          .cause = "the reply has fewer results than the request had operations"};
}

Error CompoundReply::malformed(const char* op) const {
  static log::Throttle throttle;
  if (const uint64_t n = throttle.hit()) {
    uint32_t xid = 0;
    const ByteVector& head = parts_->reply.head;
    for (size_t i = 0; i < 4 && i < head.size(); ++i) xid = xid << 8 | std::to_integer<uint32_t>(head[i]);
    log::warn("{}: malformed reply, XID {:#010x}: {} ({} so far)", op, xid, parts_->decoder.failure(), n);
  }
  return {.layer = Layer::kXdr,
          .recovery = Recovery::kPermanent,
          .errnum = EIO,
          .op = op,
          .cause = std::string("malformed reply: ") + parts_->decoder.failure()};
}

}  // namespace nfsrdma::client::nfs4
