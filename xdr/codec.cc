// SPDX-License-Identifier: Apache-2.0
#include "xdr/codec.h"

#include <algorithm>
#include <cstring>

namespace nfsrdma::xdr {
namespace {

// How much room a Batch makes at a time, in bytes.
constexpr size_t kRoomOfBatch = 512;

}  // namespace

bool Encoder::fail(const char* what) {
  if (ok_) failure_ = what;
  ok_ = false;
  return false;
}

void Encoder::grow(size_t n) {
  size_t to = end_ + (batches_ == 0 ? n : std::max(n, kRoomOfBatch));
  if (to > out_.capacity() && end_ + n <= out_.capacity()) to = out_.capacity();
  out_.resize(to);
}

bool Encoder::opaque(ConstBytes bytes, size_t max) {
  if (bytes.size() > max || bytes.size() > UINT32_MAX) return fail("opaque longer than its type allows");
  return put32(static_cast<uint32_t>(bytes.size())) && fixed(bytes);
}

bool Encoder::bulk(ConstBytes bytes, size_t max) {
  if (bulks_ == nullptr) return opaque(bytes, max);
  if (bytes.size() > max || bytes.size() > UINT32_MAX) return fail("bulk item longer than its type allows");
  if (!put32(static_cast<uint32_t>(bytes.size()))) return false;
  if (bytes.empty()) return true;
  bulks_->push_back({position(), bytes, inline_bytes()});
  bulk_bytes_ += xdr_padded(bytes.size());
  return true;
}

bool Encoder::patch(size_t inline_offset, uint32_t v) {
  if (!ok_) return false;
  if (inline_offset % 4 != 0 || inline_bytes() < 4 || inline_offset > inline_bytes() - 4) {
    return fail("patch outside of what was written");
  }
  store_be32(out_.data() + start_ + inline_offset, v);
  return true;
}

bool Decoder::fail(const char* what) {
  if (ok_) failure_ = what;
  ok_ = false;
  return false;
}

bool Decoder::operator()(int32_t& v) {
  uint32_t raw = 0;
  if (!get32(raw)) return false;
  v = static_cast<int32_t>(raw);
  return true;
}

bool Decoder::operator()(uint64_t& v) {
  if (!need(8)) return false;
  v = uint64_t{load_be32(in_.data() + pos_)} << 32 | load_be32(in_.data() + pos_ + 4);
  pos_ += 8;
  return true;
}

bool Decoder::operator()(int64_t& v) {
  uint64_t raw = 0;
  if (!(*this)(raw)) return false;
  v = static_cast<int64_t>(raw);
  return true;
}

bool Decoder::operator()(bool& v) {
  uint32_t raw = 0;
  if (!get32(raw)) return false;
  if (raw > 1) return fail("boolean is neither 0 nor 1");
  v = raw == 1;
  return true;
}

bool Decoder::fixed(MutableBytes bytes) {
  if (!need(xdr_padded(bytes.size()))) return false;
  if (!bytes.empty()) std::memcpy(bytes.data(), in_.data() + pos_, bytes.size());
  pos_ += xdr_padded(bytes.size());
  return true;
}

bool Decoder::opaque(ConstBytes& view, size_t max) {
  uint32_t length = 0;
  if (!get32(length)) return false;
  if (length > max) return fail("opaque longer than its type allows");
  if (!need(xdr_padded(size_t{length}))) return false;
  view = in_.subspan(pos_, length);
  pos_ += xdr_padded(size_t{length});
  return true;
}

bool Decoder::bulk(ConstBytes& view, size_t max) {
  if (!bulk_) return opaque(view, max);
  uint32_t length = 0;
  if (!get32(length)) return false;
  if (length > max) return fail("bulk item longer than its type allows");
  if (length != bulk_->size()) return fail("bulk item's length is not what was received");
  view = *bulk_;
  bulk_.reset();
  return true;
}

bool Decoder::skip(size_t bytes) {
  if (!need(bytes)) return false;
  pos_ += bytes;
  return true;
}

bool Decoder::count(uint32_t& n, size_t max, size_t min_element_bytes) {
  if (!get32(n)) return false;
  if (n > max) return fail("array longer than its type allows");
  if (min_element_bytes != 0 && n > left() / min_element_bytes) return fail("truncated array");
  return true;
}

}  // namespace nfsrdma::xdr
