// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <initializer_list>

#include "xdr/codec.h"

namespace nfsrdma::nfs4 {

// The words as XDR has them.
inline ByteVector words(std::initializer_list<uint32_t> values) {
  ByteVector wire;
  xdr::Encoder x(wire);
  for (const uint32_t v : values) x(v);
  return wire;
}

}  // namespace nfsrdma::nfs4
