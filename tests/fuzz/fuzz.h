// SPDX-License-Identifier: Apache-2.0
// What every decoder entry is held to, whatever bytes it is given.
//
// Decoding ends without a crash, leak or read behind the end (the sanitizers see to that); and what decodes
// is a value like any other: it encodes, in the size the Sizer says, to bytes that decode to the same value.
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

// Decodes one T; false if it does not decode.
template <class T>
bool decodes(ConstBytes input, T& value) {
  xdr::Decoder x(input);
  return x(value);
}

}  // namespace nfsrdma::fuzz
