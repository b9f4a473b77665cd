// SPDX-License-Identifier: Apache-2.0
// Fuzz entry: COMPOUND4res.

#include "tests/fuzz/fuzz.h"
#include "xdr/nfs4/compound.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace nfsrdma;  // NOLINT
  nfs4::COMPOUND4res value;
  if (fuzz::decodes(fuzz::bytes_of(data, size), value)) fuzz::survives_its_own_encoding(value);
  return 0;
}
