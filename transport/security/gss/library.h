// SPDX-License-Identifier: Apache-2.0
// What the .cc files of this folder share about the library. No other file includes this one.
#pragma once

#include <gssapi/gssapi.h>
#include <gssapi/gssapi_ext.h>
#include <gssapi/gssapi_krb5.h>
#include <string.h>

#include <string_view>

#include "xdr/support/bytes.h"

namespace nfsrdma::gss {

inline bool failed(OM_uint32 major) {
  return GSS_ERROR(major) != 0;
}

// Bytes that the library reads. It takes pointers without const and does not write through them.
inline gss_buffer_desc readable(ConstBytes bytes) {
  return {bytes.size(), const_cast<std::byte*>(bytes.data())};
}

// Bytes that the library allocated. They may be keys or plain text, so they are wiped.
class Buffer {
 public:
  Buffer() = default;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() {
    if (buffer_.value != nullptr) explicit_bzero(buffer_.value, buffer_.length);
    OM_uint32 minor = 0;
    gss_release_buffer(&minor, &buffer_);
  }

  gss_buffer_t out() { return &buffer_; }
  ConstBytes bytes() const { return {static_cast<const std::byte*>(buffer_.value), buffer_.length}; }
  ByteVector copy() const { return {bytes().begin(), bytes().end()}; }
  std::string_view text() const { return as_string_view(bytes()); }

 private:
  gss_buffer_desc buffer_ = GSS_C_EMPTY_BUFFER;
};

// The library's constants, without const as its functions take them.
inline gss_OID krb5_mechanism() {
  return const_cast<gss_OID>(gss_mech_krb5);
}
inline gss_OID_set_desc only_krb5() {
  return {1, krb5_mechanism()};
}

}  // namespace nfsrdma::gss
