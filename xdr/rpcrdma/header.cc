// SPDX-License-Identifier: Apache-2.0
#include "xdr/rpcrdma/header.h"

namespace nfsrdma::rpcrdma {
namespace {

constexpr size_t kMaxPropertyBytes = 4096;

unsigned words_of(uint32_t version, errcode code) {
  if (code == ERR_VERS) return 2;
  if (version == kVersion1) return 0;
  switch (code) {
    case RDMA2_ERR_READ_CHUNKS:
    case RDMA2_ERR_WRITE_CHUNKS:
    case RDMA2_ERR_SEGMENTS:
    case RDMA2_ERR_REPLY_RESOURCE: return 1;
    case RDMA2_ERR_WRITE_RESOURCE: return 2;
    default: return 0;
  }
}

template <class X>
bool put_error(X& x, uint32_t version, const error& e) {
  const unsigned words = words_of(version, e.code);
  return x(e.code) && (words < 1 || x(e.first)) && (words < 2 || x(e.second));
}

template <class X>
bool put_property(X& x, propid which, uint32_t value) {
  return x(which) && x(uint32_t{sizeof value}) && x(value);
}

template <class X>
bool put_properties(X& x, const properties& p) {
  return x(uint32_t{2}) && put_property(x, RDMA2_PROPID_RBSIZ, p.receive_buffer_bytes) &&
         put_property(x, RDMA2_PROPID_BRS, static_cast<uint32_t>(p.reverse_request_support));
}

template <class X>
bool put(X& x, const header& h) {
  if (h.vers != kVersion1 && h.vers != kVersion2) return false;
  if (!x(h.xid) || !x(h.vers) || !x(h.credit) || !x(h.type)) return false;
  const bool v2 = h.vers == kVersion2;
  switch (h.type) {
    case RDMA_MSG:
    case RDMA_NOMSG: return (!v2 || (x(h.flags) && x(h.inv_handle))) && x(h.chunks);
    case RDMA_ERROR:
      // The receiver of ERR_VERS does not know our version, so its layout is the same in all versions (RFC
      // 8166 section 7).
      return (!v2 || h.error.code == ERR_VERS || x(h.flags)) && put_error(x, h.vers, h.error);
    case RDMA2_CONNPROP: return v2 && x(h.flags) && put_properties(x, h.properties);
    default: return false;
  }
}

bool get_error(xdr::Decoder& x, uint32_t version, error& e) {
  if (!x(e.code)) return false;
  const unsigned words = words_of(version, e.code);
  return (words < 1 || x(e.first)) && (words < 2 || x(e.second));
}

// Whether both words can be the version range of ERR_VERS. The excluded values of `low` are the codes of the
// version 2 errors with one word (see is_fixed_err_vers()).
bool is_version_range(uint32_t low, uint32_t high) {
  return low <= high && low != RDMA2_ERR_READ_CHUNKS && low != RDMA2_ERR_WRITE_CHUNKS &&
         low != RDMA2_ERR_SEGMENTS && low != RDMA2_ERR_REPLY_RESOURCE;
}

// ERR_VERS has two layouts in a message of version 2: without flags, as in version 1 and from every responder
// that does not know version 2 (28 bytes: 1, low, high), and with flags (32 bytes: RESPONSE, 1, low, high).
// A version 2 error with one word also has 28 bytes: RESPONSE (which is 1, too), code, word. Its code stands
// where ERR_VERS has `low`, so is_version_range() distinguishes the two.
bool is_fixed_err_vers(ConstBytes message) {
  if (message.size() != 28) return false;
  const uint32_t w4 = load_be32(message.data() + 16);
  const uint32_t w5 = load_be32(message.data() + 20);
  const uint32_t w6 = load_be32(message.data() + 24);
  return w4 == ERR_VERS && is_version_range(w5, w6);
}

// v2 section 4.1: a malformed property is answered BAD_XDR; an unknown one is ignored.
bool get_properties(xdr::Decoder& x, properties& p) {
  uint32_t count = 0;
  if (!x.count(count, x.left(), 8)) return false;
  for (uint32_t i = 0; i < count; ++i) {
    uint32_t which = 0;
    ConstBytes data;
    if (!x(which) || !x.opaque(data, kMaxPropertyBytes)) return false;
    if (which != RDMA2_PROPID_RBSIZ && which != RDMA2_PROPID_BRS) continue;
    if (data.empty()) continue;  // "zero-length data": the default
    if (data.size() != 4) return x.fail("a property of the wrong length");
    const uint32_t value = load_be32(data.data());
    if (which == RDMA2_PROPID_RBSIZ) {
      p.receive_buffer_bytes = value;
    } else {
      if (value > RDMA2_RVREQSUP_GENL) return x.fail("no such level of reverse direction support");
      p.reverse_request_support = static_cast<rvreqsup>(value);
    }
  }
  return true;
}

Defect get_version1(xdr::Decoder& x, header& h) {
  switch (h.type) {
    case RDMA_MSG:
    case RDMA_NOMSG: return x(h.chunks) ? Defect::kNone : Defect::kXdr;
    case RDMA_ERROR: return get_error(x, kVersion1, h.error) ? Defect::kNone : Defect::kXdr;
    default: return Defect::kType;
  }
}

// draft-ietf-nfsv4-rpcrdma-version-two has no flags word and numbers its types from 6; its error INVAL_HTYPE
// is code 4 without more words. In the draft supported here no error has 20 bytes, and flags are less than 2.
bool is_foreign(ConstBytes message, const header& h) {
  if (h.type >= 6 && h.type <= 13) return true;
  return h.type == RDMA_ERROR && message.size() == 20 && load_be32(message.data() + 16) == 4;
}

Defect get_version2(xdr::Decoder& x, ConstBytes message, header& h) {
  if (h.type == RDMA_ERROR && is_fixed_err_vers(message))
    return get_error(x, kVersion1, h.error) ? Defect::kNone : Defect::kXdr;
  if (is_foreign(message, h)) return Defect::kForeign;
  // Every type has flags (section 3.1), so that a receiver can tell from them whether to answer an unknown
  // type.
  const bool flags = x(h.flags);
  if (h.type != RDMA_MSG && h.type != RDMA_NOMSG && h.type != RDMA_ERROR && h.type != RDMA2_CONNPROP)
    return Defect::kType;
  if (!flags) return Defect::kXdr;
  bool ok = false;
  if (h.type == RDMA_ERROR) {
    ok = get_error(x, kVersion2, h.error) &&
         (h.error.code != ERR_VERS || is_version_range(h.error.first, h.error.second));
  } else if (h.type == RDMA2_CONNPROP) {
    ok = get_properties(x, h.properties);
  } else {
    ok = x(h.inv_handle) && x(h.chunks);
  }
  return ok ? Defect::kNone : Defect::kXdr;
}

}  // namespace

void header::clear() {
  xid = 0;
  vers = kVersion1;
  credit = 0;
  type = RDMA_MSG;
  flags = 0;
  inv_handle = 0;
  chunks.clear();
  error = {};
  properties = {};
}

bool encode(ByteVector& out, const header& h) {
  xdr::Encoder x(out);
  const xdr::Encoder::Batch batch(x);
  return put(x, h);
}

size_t encoded_bytes(const header& h) {
  xdr::Sizer x;
  put(x, h);
  return x.total();
}

Defect decode(ConstBytes message, header& h, size_t* length) {
  h.clear();
  *length = 0;
  if (message.size() < kPrefixBytes) return Defect::kShort;
  xdr::Decoder x(message);
  if (!x(h.xid) || !x(h.vers) || !x(h.credit) || !x(h.type)) return Defect::kShort;
  Defect defect = Defect::kVersion;
  if (h.vers == kVersion1) defect = get_version1(x, h);
  if (h.vers == kVersion2) defect = get_version2(x, message, h);
  // RFC 8166 section 4.5: "vers" of ERR_VERS may be any value; its place is fixed.
  if (defect == Defect::kVersion && h.type == RDMA_ERROR && is_fixed_err_vers(message))
    defect = get_error(x, kVersion1, h.error) ? Defect::kNone : Defect::kXdr;
  *length = x.position();
  return defect;
}

}  // namespace nfsrdma::rpcrdma
