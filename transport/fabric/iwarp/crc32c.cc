// SPDX-License-Identifier: Apache-2.0
#include "transport/fabric/iwarp/crc32c.h"

#include <isa-l/crc.h>

#include <algorithm>

namespace nfsrdma::fabric::iwarp {

void Crc32c::add(ConstBytes bytes) {
  while (!bytes.empty()) {
    const ConstBytes part = bytes.first(std::min<size_t>(bytes.size(), 1u << 30));  // its length is an int
    auto* begin = reinterpret_cast<unsigned char*>(const_cast<std::byte*>(part.data()));  // it only reads
    state_ = crc32_iscsi(begin, static_cast<int>(part.size()), state_);
    bytes = bytes.subspan(part.size());
  }
}

void Crc32c::store(std::byte* to) const {
  for (unsigned i = 0; i < 4; ++i) to[i] = static_cast<std::byte>(value() >> 8 * i);
}

}  // namespace nfsrdma::fabric::iwarp
