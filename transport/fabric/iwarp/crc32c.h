// SPDX-License-Identifier: Apache-2.0
// CRC32c (Castagnoli), as iSCSI (RFC 3720 section 12.1) and MPA (RFC 5044 section 4.4) use it.
//
// Incremental: Crc32c c; c.add(a); c.add(b); c.value() is the CRC of a followed by b. On the wire the value
// has its least significant byte first. Any thread. ISA-L computes it (docs/adr/0047-libraries.md).
#pragma once

#include <cstdint>

#include "xdr/support/bytes.h"

namespace nfsrdma::fabric::iwarp {

class Crc32c {
 public:
  void add(ConstBytes bytes);
  uint32_t value() const { return ~state_; }
  // Stores value() in wire order.
  void store(std::byte* to) const;

 private:
  uint32_t state_ = 0xffffffff;
};

}  // namespace nfsrdma::fabric::iwarp
