// SPDX-License-Identifier: Apache-2.0
#include "client/nfs4/session/bulk_locators.h"

#include <algorithm>

#include <optional>

#include "xdr/nfs4/compound.h"
#include "xdr/rpc.h"

namespace nfsrdma::client::nfs4 {
namespace {

using rpc::Locate;

constexpr uint32_t kMaxVerifier = 400;  // RFC 5531 section 8.2
constexpr uint32_t kMaxBitmapWords = 16;

// Reads the words of a reply's prefix and notes when the bytes run out.
class PrefixCursor {
 public:
  explicit PrefixCursor(ConstBytes in) : in_(in) {}
  uint32_t word() {
    if (in_.size() - at_ < 4) {
      short_ = true;
      at_ = in_.size();
      return 0;
    }
    at_ += 4;
    return load_be32(in_.data() + at_ - 4);
  }
  void skip(size_t n) {
    if (in_.size() - at_ < n) {
      short_ = true;
      at_ = in_.size();
    } else {
      at_ += n;
    }
  }
  bool ran_out() const { return short_; }
  size_t at() const { return at_; }

 private:
  ConstBytes in_;
  size_t at_ = 0;
  bool short_ = false;
};

// Skips everything before the results. Returns nothing on success, with their number in `results`.
std::optional<Locate> past_head(PrefixCursor& in, uint32_t& results) {
  in.skip(4);  // XID
  const bool accepted = in.word() == 1 && in.word() == 0;
  in.skip(4);
  const uint32_t verifier = in.word();
  if (in.ran_out()) return Locate::kNeedMore;
  if (!accepted || verifier > kMaxVerifier) return Locate::kNone;
  in.skip(xdr_padded(verifier));
  const bool success = in.word() == rpc::SUCCESS;
  in.skip(4);  // the COMPOUND's status: the last operation's, which may come after READ
  const uint32_t tag = in.word();
  if (in.ran_out()) return success ? Locate::kNeedMore : Locate::kNone;
  if (!success || tag > nfs4::kMaxTag) return Locate::kNone;
  in.skip(xdr_padded(tag));
  results = in.word();
  return std::nullopt;
}

bool is(PrefixCursor& in, nfs4::nfs_opnum4 op) {
  const bool same = in.word() == op;
  return in.word() == nfs4::NFS4_OK && same;
}

bool past_sequence_and_putfh(PrefixCursor& in) {
  const bool sequence = is(in, nfs4::OP_SEQUENCE);
  in.skip(36);  // SEQUENCE4resok
  return is(in, nfs4::OP_PUTFH) && sequence;
}

Locate at_read(PrefixCursor& in, bool shape, rpc::BulkPlace& place) {
  shape = is(in, nfs4::OP_READ) && shape;
  in.skip(4);  // eof
  const uint32_t length = in.word();
  if (in.ran_out()) return Locate::kNeedMore;
  if (!shape) return Locate::kNone;
  place = {in.at(), length};
  return Locate::kFound;
}

bool past_bitmap(PrefixCursor& in) {
  const uint32_t words = in.word();
  in.skip(4 * size_t{std::min(words, kMaxBitmapWords)});
  return words <= kMaxBitmapWords;
}

// open_delegation4 (RFC 8881 section 18.16.2).
bool past_delegation(PrefixCursor& in) {
  const uint32_t type = in.word();
  switch (type) {
    case nfs4::OPEN_DELEGATE_NONE: return true;
    case nfs4::OPEN_DELEGATE_READ:
    case nfs4::OPEN_DELEGATE_WRITE: {
      in.skip(16 + 4);                                        // stateid, recall
      if (type == nfs4::OPEN_DELEGATE_WRITE) in.skip(4 + 8);  // nfs_space_limit4, either arm
      in.skip(4 + 4 + 4);                                     // nfsace4 up to who
      in.skip(xdr_padded(size_t{in.word()}));
      return true;
    }
    case nfs4::OPEN_DELEGATE_NONE_EXT: {
      const uint32_t why = in.word();
      if (why == nfs4::WND4_CONTENTION || why == nfs4::WND4_RESOURCE) in.skip(4);
      return true;
    }
    default: return false;
  }
}

}  // namespace

Locate locate_read_data(ConstBytes prefix, rpc::BulkPlace& place) {
  PrefixCursor in(prefix);
  uint32_t results = 0;
  if (const auto said = past_head(in, results)) return *said;
  const bool shape = results == 3 || results == 4;
  return at_read(in, past_sequence_and_putfh(in) && shape, place);
}

Locate locate_data_read_with_open(ConstBytes prefix, rpc::BulkPlace& place) {
  PrefixCursor in(prefix);
  uint32_t results = 0;
  if (const auto said = past_head(in, results)) return *said;
  bool shape = past_sequence_and_putfh(in) && (results == 6 || results == 7);
  shape = is(in, nfs4::OP_OPEN) && shape;
  in.skip(16 + 20 + 4);  // stateid, change_info4, rflags
  shape = past_bitmap(in) && shape;
  if (in.ran_out()) return Locate::kNeedMore;
  // A result of unknown type has no known length.
  if (!shape || !past_delegation(in)) return Locate::kNone;
  shape = is(in, nfs4::OP_ACCESS);
  in.skip(8);  // ACCESS4resok
  shape = is(in, nfs4::OP_GETATTR) && shape;
  shape = past_bitmap(in) && shape;
  const uint32_t attributes = in.word();
  if (in.ran_out()) return Locate::kNeedMore;
  if (!shape) return Locate::kNone;
  in.skip(xdr_padded(size_t{attributes}));
  return at_read(in, true, place);
}

}  // namespace nfsrdma::client::nfs4
