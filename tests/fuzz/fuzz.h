// SPDX-License-Identifier: Apache-2.0
// Checks for every decoder, with any bytes.
//
// Decoding must not crash, leak or read beyond the end (the sanitizers check that). A decoded value must
// encode, with the size that the Sizer computes, to bytes that decode to the same value.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "xdr/codec.h"

namespace nfsrdma::fuzz {

inline void require(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "property violated: %s\n", what);
  std::abort();
}

inline ConstBytes bytes_of(const uint8_t* data, size_t size) {
  return std::as_bytes(std::span(data, size));
}

template <class T>
void survives_its_own_encoding(const T& value) {
  ByteVector out;
  xdr::Encoder e(out);
  require(e(value), "what decodes can be encoded");
  require(xdr::size_of(value) == out.size(), "the size is the Sizer's");
  xdr::Decoder d(out);
  T again{};
  require(d(again) && d.left() == 0, "what was encoded decodes");
  require(again == value, "to the same value");
}

// Decodes a T; returns false on failure.
template <class T>
bool decodes(ConstBytes input, T& value) {
  xdr::Decoder x(input);
  return x(value);
}

}  // namespace nfsrdma::fuzz
