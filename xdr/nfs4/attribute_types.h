// SPDX-License-Identifier: Apache-2.0
// Structures of attributes that few clients request: locations, file system status, layouts, retention,
// labels, masked modes (RFC 8881 sections 5.8 to 5.13 and 11; RFC 7862 section 12; RFC 8275). For the
// attributes see attributes.h.
//
// They are decoded and not skipped, so that every attribute that a server may legally return is bounded,
// checked, and can be encoded again unchanged. Opaque bodies (layouts, hints, labels) stay opaque.
#pragma once

#include <cstdint>
#include <optional>

#include "xdr/nfs4/basic.h"

namespace nfsrdma::nfs4 {

struct change_policy4 {
  uint64_t cp_major = 0;
  uint64_t cp_minor = 0;

  bool operator==(const change_policy4&) const = default;
};

template <class X>
bool xdr(X& x, Ref<X, change_policy4> v) {
  return x(v.cp_major) && x(v.cp_minor);
}

// --- locations (RFC 8881 sections 11.16 and 11.17) ---

// server<> holds names or addresses; its count is limited as that of a path.
struct fs_location4 {
  std::vector<std::string> server{};
  pathname4 rootpath{};

  bool operator==(const fs_location4&) const = default;
};

template <class X>
bool xdr(X& x, Ref<X, fs_location4> v) {
  return pathname(x, v.server) && pathname(x, v.rootpath);
}

struct fs_locations4 {
  pathname4 fs_root{};
  std::vector<fs_location4> locations{};

  bool operator==(const fs_locations4&) const = default;
};

template <class X>
bool xdr(X& x, Ref<X, fs_locations4> v) {
  return pathname(x, v.fs_root) && xdr::array(x, v.locations, kMaxList, 8);
}

struct fs_locations_server4 {
  int32_t fls_currency = 0;
  std::string fls_info{};
  std::string fls_server{};

  bool operator==(const fs_locations_server4&) const = default;
};

template <class X>
bool xdr(X& x, Ref<X, fs_locations_server4> v) {
  return x(v.fls_currency) && xdr::bytes(x, v.fls_info, kMaxUtf8) && xdr::bytes(x, v.fls_server, kMaxUtf8);
}

struct fs_locations_item4 {
  std::vector<fs_locations_server4> fli_entries{};
  pathname4 fli_rootpath{};

  bool operator==(const fs_locations_item4&) const = default;
};

template <class X>
bool xdr(X& x, Ref<X, fs_locations_item4> v) {
  return xdr::array(x, v.fli_entries, kMaxList, 12) && pathname(x, v.fli_rootpath);
}

struct fs_locations_info4 {
  uint32_t fli_flags = 0;
  int32_t fli_valid_for = 0;  // seconds
  pathname4 fli_fs_root{};
  std::vector<fs_locations_item4> fli_items{};

  bool operator==(const fs_locations_info4&) const = default;
};

template <class X>
bool xdr(X& x, Ref<X, fs_locations_info4> v) {
  return x(v.fli_flags) && x(v.fli_valid_for) && pathname(x, v.fli_fs_root) &&
         xdr::array(x, v.fli_items, kMaxList, 8);
}

enum fs4_status_type : uint32_t {
  STATUS4_FIXED = 1,
  STATUS4_UPDATED = 2,
  STATUS4_VERSIONED = 3,
  STATUS4_WRITABLE = 4,
  STATUS4_REFERRAL = 5,
};

struct fs4_status {
  bool fss_absent = false;
  fs4_status_type fss_type = STATUS4_FIXED;
  std::string fss_source{};
  std::string fss_current{};
  int32_t fss_age = 0;  // seconds
  nfstime4 fss_version{};

  bool operator==(const fs4_status&) const = default;
};

template <class X>
bool xdr(X& x, Ref<X, fs4_status> v) {
  if (!x(v.fss_absent) || !x(v.fss_type)) return false;
  if (v.fss_type < STATUS4_FIXED || v.fss_type > STATUS4_REFERRAL) return x.fail("unknown fs4_status_type");
  return xdr::bytes(x, v.fss_source, kMaxUtf8) && xdr::bytes(x, v.fss_current, kMaxUtf8) && x(v.fss_age) &&
         x(v.fss_version);
}

// --- layouts (RFC 8881 section 3.3.13; values are in an IANA registry, so unknown ones pass) ---

enum layouttype4 : uint32_t {
  LAYOUT4_NFSV4_1_FILES = 1,
  LAYOUT4_OSD2_OBJECTS = 2,
  LAYOUT4_BLOCK_VOLUME = 3,
  LAYOUT4_FLEX_FILES = 4,
};

struct layouthint4 {
  layouttype4 loh_type{};
  std::string loh_body{};

  bool operator==(const layouthint4&) const = default;
};

template <class X>
bool xdr(X& x, Ref<X, layouthint4> v) {
  return x(v.loh_type) && xdr::bytes(x, v.loh_body, kMaxOpaque);
}

struct threshold_item4 {
  layouttype4 thi_layout_type{};
  bitmap4 thi_hintset{};
  std::string thi_hintlist{};

  bool operator==(const threshold_item4&) const = default;
};

template <class X>
bool xdr(X& x, Ref<X, threshold_item4> v) {
  return x(v.thi_layout_type) && x(v.thi_hintset) && xdr::bytes(x, v.thi_hintlist, kMaxOpaque);
}

// --- retention (RFC 8881 section 5.13) ---

struct retention_get4 {
  uint64_t rg_duration = 0;
  std::optional<nfstime4> rg_begin_time{};  // <1>

  bool operator==(const retention_get4&) const = default;
};

// T v<1> is encoded as optional-data is: a count of 0 or 1 (RFC 4506 section 4.19).
template <class X>
bool xdr(X& x, Ref<X, retention_get4> v) {
  return x(v.rg_duration) && xdr::optional(x, v.rg_begin_time);
}

struct retention_set4 {
  bool rs_enable = false;
  std::optional<uint64_t> rs_duration{};  // <1>

  bool operator==(const retention_set4&) const = default;
};

template <class X>
bool xdr(X& x, Ref<X, retention_set4> v) {
  return x(v.rs_enable) && xdr::optional(x, v.rs_duration);
}

// --- modes and labels ---

struct mode_masked4 {
  mode4 mm_value_to_set = 0;
  mode4 mm_mask_bits = 0;

  bool operator==(const mode_masked4&) const = default;
};

template <class X>
bool xdr(X& x, Ref<X, mode_masked4> v) {
  return x(v.mm_value_to_set) && x(v.mm_mask_bits);
}

// RFC 8275 section 5.
struct mode_umask4 {
  mode4 mu_mode = 0;
  mode4 mu_umask = 0;

  bool operator==(const mode_umask4&) const = default;
};

template <class X>
bool xdr(X& x, Ref<X, mode_umask4> v) {
  return x(v.mu_mode) && x(v.mu_umask);
}

// RFC 7862 section 12.2.4.
struct sec_label4 {
  uint32_t lfs_lfs = 0;
  uint32_t lfs_pi = 0;
  std::string slai_data{};

  bool operator==(const sec_label4&) const = default;
};

template <class X>
bool xdr(X& x, Ref<X, sec_label4> v) {
  return x(v.lfs_lfs) && x(v.lfs_pi) && xdr::bytes(x, v.slai_data, kMaxOpaque);
}

}  // namespace nfsrdma::nfs4
