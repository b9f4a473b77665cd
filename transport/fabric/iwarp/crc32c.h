// SPDX-License-Identifier: Apache-2.0
// CRC32c (Castagnoli), as iSCSI (RFC 3720 section 12.1) and MPA (RFC 5044 section 4.4) use it.
//
// Incremental: Crc32c c; c.add(a); c.add(b); c.value() is the CRC of a followed by b. On the wire the value
// has its least significant byte first. Any thread. The processor's instruction is used where available, on
// three streams at a time: an instruction takes three cycles, and a new one can start in each cycle.
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

// The implementations behind add(), for tests: both take and return the state, not the value.
uint32_t crc32c_by_table(uint32_t state, ConstBytes bytes);
bool crc32c_has_instruction();
uint32_t crc32c_by_instruction(uint32_t state, ConstBytes bytes);

}  // namespace nfsrdma::fabric::iwarp
