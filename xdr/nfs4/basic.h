// SPDX-License-Identifier: Apache-2.0
// Basic data types of NFSv4.1 (RFC 8881 section 3, XDR in RFC 5662), in the RFC's spelling.
//
// Integers keep their RFC names as aliases. Opaque arrays are small value types with copy, comparison and
// hash. Counted opaques with names or owners are std::string (any bytes, no terminator). The RFC leaves many
// lengths open ("<>"); the limits below apply to encoding and decoding. A longer item fails and is not
// truncated. Values only; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "xdr/codec.h"
#include "xdr/nfs4/bitmap.h"
#include "xdr/nfs4_status.h"

namespace nfsrdma::nfs4 {

using xdr::Ref;

inline constexpr uint32_t NFS4_PROGRAM = 100003;
inline constexpr uint32_t NFS_V4 = 4;
inline constexpr uint32_t NFSPROC4_NULL = 0;
inline constexpr uint32_t NFSPROC4_COMPOUND = 1;
inline constexpr uint32_t NFS_CB = 1;  // version of the callback program, whose number the client chooses
inline constexpr uint32_t CB_NULL = 0;
inline constexpr uint32_t CB_COMPOUND = 1;

inline constexpr size_t NFS4_FHSIZE = 128;
inline constexpr size_t NFS4_VERIFIER_SIZE = 8;
inline constexpr size_t NFS4_OPAQUE_LIMIT = 1024;
inline constexpr size_t NFS4_SESSIONID_SIZE = 16;
inline constexpr size_t NFS4_DEVICEID4_SIZE = 16;
inline constexpr uint32_t NFS4_UINT32_MAX = 0xffffffff;
inline constexpr uint64_t NFS4_UINT64_MAX = 0xffffffffffffffff;
inline constexpr uint64_t NFS4_MAXFILELEN = 0xffffffffffffffff;
inline constexpr uint64_t NFS4_MAXFILEOFF = 0xfffffffffffffffe;

// Our limits where the RFC has none. A name may be longer than any file system's limit, so that a server can
// answer NFS4ERR_NAMETOOLONG.
inline constexpr size_t kMaxComponent = 8192;  // component4
inline constexpr size_t kMaxLinktext = 65536;  // linktext4
inline constexpr size_t kMaxPathDepth = 1024;  // pathname4: components
inline constexpr size_t kMaxPrincipal = 4096;  // owner, owner_group, nfsace4.who
inline constexpr size_t kMaxTag = 4096;        // COMPOUND tags
inline constexpr size_t kMaxUtf8 = 4096;       // other utf8strings, netids, universal addresses
inline constexpr size_t kMaxOpaque = 1 << 20;  // other opaques without a limit: layouts, GSS handles, labels
inline constexpr size_t kMaxList = 1 << 16;  // counted arrays without a limit; the bytes left limit them too

using changeid4 = uint64_t;
using clientid4 = uint64_t;
using count4 = uint32_t;
using length4 = uint64_t;
using mode4 = uint32_t;
using nfs_cookie4 = uint64_t;
using nfs_lease4 = uint32_t;  // seconds
using offset4 = uint64_t;
using qop4 = uint32_t;
using sequenceid4 = uint32_t;
using seqid4 = uint32_t;
using slotid4 = uint32_t;
using component4 = std::string;
using linktext4 = std::string;
using pathname4 = std::vector<component4>;
using sec_oid4 = std::string;

enum nfs_ftype4 : uint32_t {
  NF4REG = 1,
  NF4DIR = 2,
  NF4BLK = 3,
  NF4CHR = 4,
  NF4LNK = 5,
  NF4SOCK = 6,
  NF4FIFO = 7,
  NF4ATTRDIR = 8,
  NF4NAMEDATTR = 9,
};

// --- opaque arrays ---

// opaque[8]. The server chooses it (cookies, writes) or the client (its instance, exclusive creates).
struct verifier4 {
  std::array<std::byte, NFS4_VERIFIER_SIZE> data{};

  static verifier4 of(uint64_t value) {
    verifier4 v;
    store_be32(v.data.data(), static_cast<uint32_t>(value >> 32));
    store_be32(v.data.data() + 4, static_cast<uint32_t>(value));
    return v;
  }
  bool operator==(const verifier4&) const = default;
};

// opaque[16].
struct sessionid4 {
  std::array<std::byte, NFS4_SESSIONID_SIZE> data{};

  bool operator==(const sessionid4&) const = default;
};

// opaque[16].
struct deviceid4 {
  std::array<std::byte, NFS4_DEVICEID4_SIZE> data{};

  bool operator==(const deviceid4&) const = default;
};

template <class X>
bool xdr(X& x, Ref<X, verifier4> v) {
  return xdr::fixed(x, v.data);
}
template <class X>
bool xdr(X& x, Ref<X, sessionid4> v) {
  return xdr::fixed(x, v.data);
}
template <class X>
bool xdr(X& x, Ref<X, deviceid4> v) {
  return xdr::fixed(x, v.data);
}

// opaque<128>, stored inline, because filehandles are copied and compared in every operation.
class nfs_fh4 {
 public:
  nfs_fh4() = default;
  // `bytes`: at most NFS4_FHSIZE bytes; if it is longer, the handle is empty.
  explicit nfs_fh4(ConstBytes bytes) { assign(bytes); }

  bool assign(ConstBytes bytes) {
    if (bytes.size() > NFS4_FHSIZE) return false;
    size_ = static_cast<uint32_t>(bytes.size());
    if (!bytes.empty()) std::memcpy(data_.data(), bytes.data(), bytes.size());
    return true;
  }
  ConstBytes bytes() const { return {data_.data(), size_}; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

  friend bool operator==(const nfs_fh4& a, const nfs_fh4& b) {
    return as_string_view(a.bytes()) == as_string_view(b.bytes());
  }

 private:
  uint32_t size_ = 0;
  std::array<std::byte, NFS4_FHSIZE> data_{};
};

template <class X>
bool xdr(X& x, Ref<X, nfs_fh4> v) {
  if constexpr (xdr::kDecodes<X>) {
    ConstBytes view;
    return x.opaque(view, NFS4_FHSIZE) && v.assign(view);
  } else {
    return x.opaque(v.bytes(), NFS4_FHSIZE);
  }
}

// --- stateid4 (RFC 8881 section 8.2) ---

struct stateid4 {
  uint32_t seqid = 0;
  std::array<std::byte, 12> other{};

  // The same open, lock or delegation; the seqids may differ.
  bool same_state(const stateid4& b) const { return other == b.other; }
  bool operator==(const stateid4&) const = default;
};

template <class X>
bool xdr(X& x, Ref<X, stateid4> v) {
  return x(v.seqid) && xdr::fixed(x, v.other);
}

inline constexpr std::array<std::byte, 12> kAllOnes = [] {
  std::array<std::byte, 12> bytes{};
  bytes.fill(std::byte{0xff});
  return bytes;
}();

// Special stateids of RFC 8881 section 8.2.3.
inline constexpr stateid4 kAnonymousStateid{};
inline constexpr stateid4 kReadBypassStateid{NFS4_UINT32_MAX, kAllOnes};
inline constexpr stateid4 kCurrentStateid{1, {}};
inline constexpr stateid4 kInvalidStateid{NFS4_UINT32_MAX, {}};

// --- small structures ---

struct nfstime4 {
  int64_t seconds = 0;
  uint32_t nseconds = 0;  // the sender must keep it below 1,000,000,000; not checked here

  bool operator==(const nfstime4&) const = default;
};

template <class X>
bool xdr(X& x, Ref<X, nfstime4> v) {
  return x(v.seconds) && x(v.nseconds);
}

enum time_how4 : uint32_t { SET_TO_SERVER_TIME4 = 0, SET_TO_CLIENT_TIME4 = 1 };

struct settime4 {
  time_how4 set_it = SET_TO_SERVER_TIME4;
  nfstime4 time{};  // SET_TO_CLIENT_TIME4

  bool operator==(const settime4&) const = default;
};

template <class X>
bool xdr(X& x, Ref<X, settime4> v) {
  if (!x(v.set_it)) return false;
  if (v.set_it > SET_TO_CLIENT_TIME4) return x.fail("unknown time_how4");
  return v.set_it != SET_TO_CLIENT_TIME4 || x(v.time);
}

struct fsid4 {
  uint64_t major = 0;
  uint64_t minor = 0;

  bool operator==(const fsid4&) const = default;
};

template <class X>
bool xdr(X& x, Ref<X, fsid4> v) {
  return x(v.major) && x(v.minor);
}

struct specdata4 {
  uint32_t specdata1 = 0;  // major device number
  uint32_t specdata2 = 0;  // minor device number

  bool operator==(const specdata4&) const = default;
};

template <class X>
bool xdr(X& x, Ref<X, specdata4> v) {
  return x(v.specdata1) && x(v.specdata2);
}

struct change_info4 {
  bool atomic = false;
  changeid4 before = 0;
  changeid4 after = 0;

  bool operator==(const change_info4&) const = default;
};

template <class X>
bool xdr(X& x, Ref<X, change_info4> v) {
  return x(v.atomic) && x(v.before) && x(v.after);
}

struct state_owner4 {
  // ignored by servers, because the session identifies the client (RFC 8881 section 18.16.3)
  clientid4 clientid = 0;
  std::string owner{};  // opaque<1024>

  bool operator==(const state_owner4&) const = default;
};
using open_owner4 = state_owner4;
using lock_owner4 = state_owner4;

template <class X>
bool xdr(X& x, Ref<X, state_owner4> v) {
  return x(v.clientid) && xdr::bytes(x, v.owner, NFS4_OPAQUE_LIMIT);
}

struct netaddr4 {
  std::string na_r_netid{};  // "tcp", "tcp6", "rdma", ... (RFC 5665)
  std::string na_r_addr{};   // universal address

  bool operator==(const netaddr4&) const = default;
};

template <class X>
bool xdr(X& x, Ref<X, netaddr4> v) {
  return xdr::bytes(x, v.na_r_netid, kMaxUtf8) && xdr::bytes(x, v.na_r_addr, kMaxUtf8);
}

// component4<>; a component has at least its four length bytes.
template <class X, class Path>
bool pathname(X& x, Path& v) {
  if constexpr (xdr::kDecodes<X>) {
    uint32_t n = 0;
    if (!x.count(n, kMaxPathDepth, 4)) return false;
    v.clear();
    while (n-- > 0) {
      if (!xdr::bytes(x, v.emplace_back(), kMaxComponent)) return false;
    }
    return true;
  } else {
    if (v.size() > kMaxPathDepth) return x.fail("path too deep");
    if (!x(static_cast<uint32_t>(v.size()))) return false;
    for (const component4& component : v) {
      if (!xdr::bytes(x, component, kMaxComponent)) return false;
    }
    return true;
  }
}

}  // namespace nfsrdma::nfs4

template <>
struct std::hash<nfsrdma::nfs4::nfs_fh4> {
  size_t operator()(const nfsrdma::nfs4::nfs_fh4& v) const noexcept {
    return std::hash<std::string_view>{}(nfsrdma::as_string_view(v.bytes()));
  }
};
template <>
struct std::hash<nfsrdma::nfs4::sessionid4> {
  size_t operator()(const nfsrdma::nfs4::sessionid4& v) const noexcept {
    return std::hash<std::string_view>{}(nfsrdma::as_string_view(v.data));
  }
};
// Ignores the seqid: a table keyed by stateid must find the state for any seqid.
template <>
struct std::hash<nfsrdma::nfs4::stateid4> {
  size_t operator()(const nfsrdma::nfs4::stateid4& v) const noexcept {
    return std::hash<std::string_view>{}(nfsrdma::as_string_view(v.other));
  }
};
