#include "client/nfs4/compound.h"

#include <bit>
#include <cerrno>

#include "client/nfs4/bulk_locators.h"
#include "transport/runtime/log.h"

namespace nfsrdma::client {
namespace {

constexpr uint32_t kMinorVersion = 1;

void put32(ByteVector& out, size_t offset, uint32_t v) {
  for (unsigned i = 0; i < 4; ++i) out[offset + i] = static_cast<std::byte>(v >> (24 - 8 * i));
}

}  // namespace

CompoundBuilder::CompoundBuilder(const rpc::Credential& credential, const char* op, bool sequence)
    : encoder_(call_.head, &call_.bulks) {
  call_.op = op;
  call_.max_reply_bytes = kReplyHeadBytes;
  call_.head.reserve(512);
  // RFC 5531 section 9: call_body. The transport writes the XID.
  encoder_(uint32_t{0});
  encoder_(uint32_t{0});  // CALL
  encoder_(uint32_t{2});  // RPC version
  encoder_(nfs4::NFS4_PROGRAM);
  encoder_(nfs4::NFS_V4);
  encoder_(nfs4::NFSPROC4_COMPOUND);
  encoder_.raw(credential.encoded());
  encoder_(uint32_t{0});  // verifier: AUTH_NONE, empty
  encoder_(uint32_t{0});
  // COMPOUND4args: tag, minorversion, argarray.
  encoder_(uint32_t{0});
  encoder_(kMinorVersion);
  count_offset_ = call_.head.size();
  encoder_(uint32_t{0});
  if (sequence) {
    sequence_offset_ = call_.head.size() + 4;
    add(nfs4::SEQUENCE4args{});
  }
}

void CompoundBuilder::expect_read(Slice destination, PipePool* pipes) {
  call_.sink = {std::move(destination), locate_read_data, kReadDataOffset, pipes};
}

void CompoundBuilder::expect_read_with_open(Slice destination) {
  call_.sink = {std::move(destination), locate_data_read_with_open, kDataReadWithOpenOffset, nullptr};
}

rpc::Call CompoundBuilder::finish(const SlotTicket* ticket, bool cache_this) {
  put32(call_.head, count_offset_, operations_);
  if (ticket != nullptr) {
    // SEQUENCE4args: sessionid[16], sequenceid, slotid, highest_slotid, cachethis.
    std::copy(ticket->session.data.begin(), ticket->session.data.end(),
              call_.head.begin() + static_cast<std::ptrdiff_t>(sequence_offset_));
    put32(call_.head, sequence_offset_ + 16, ticket->sequence);
    put32(call_.head, sequence_offset_ + 20, ticket->slot);
    put32(call_.head, sequence_offset_ + 24, ticket->highest);
    put32(call_.head, sequence_offset_ + 28, cache_this ? 1 : 0);
  }
  return std::move(call_);
}

Result<CompoundReply> CompoundReply::parse(rpc::Reply reply, const Slice& sink, const char* op,
                                           bool sequence) {
  CompoundReply r(std::move(reply), op);
  if (r.reply_.placed) r.decoder_.set_bulk(sink.bytes.first(r.reply_.bulk_length));
  ConstBytes tag;
  if (!r.decoder_(r.status_) || !r.decoder_.opaque(tag, nfs4::kMaxTag) || !r.decoder_(r.left_)) {
    return fail(r.malformed("COMPOUND"));
  }
  r.results_ = r.left_;
  if (!sequence || r.left_ == 0) return r;
  auto res = r.take_any<nfs4::SEQUENCE4res>();
  if (!res) return fail(std::move(res.error()));
  r.sequence_ = *std::move(res);
  return r;
}

Error CompoundReply::exhausted(const char* op) const {
  // RFC 8881 section 2.3: processing stops at the first error, which is also the COMPOUND's status.
  if (status_ != nfs4::NFS4_OK) return nfs4::nfs_error(status_, op_);
  return {Layer::kXdr, Recovery::kPermanent,
          EIO,         0,
          op,          "the reply has fewer results than the request had operations"};
}

Error CompoundReply::malformed(const char* op) const {
  static log::Throttle throttle;
  if (const uint64_t n = throttle.hit()) {
    uint32_t xid = 0;
    for (size_t i = 0; i < 4 && i < reply_.head.size(); ++i)
      xid = xid << 8 | std::to_integer<uint32_t>(reply_.head[i]);
    log::warn("{}: malformed reply, XID {:#010x}: {} ({} so far)", op, xid, decoder_.failure(), n);
  }
  return {
      Layer::kXdr, Recovery::kPermanent, EIO, 0, op, std::string("malformed reply: ") + decoder_.failure()};
}

}  // namespace nfsrdma::client
