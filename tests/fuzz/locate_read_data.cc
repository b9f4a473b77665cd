// SPDX-License-Identifier: Apache-2.0
// Fuzz entry: locating a READ's data in a reply that is still arriving.

#include "tests/fuzz/read_shape.h"

namespace {

using namespace nfsrdma;  // NOLINT

Result<nfs4::READ4res> take(client::nfs4::CompoundReply& reply) {
  if (Result<> put = reply.expect<nfs4::PUTFH4res>(); !put) return fail(std::move(put.error()));
  return reply.take<nfs4::READ4res>();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::locates_as_it_decodes({client::nfs4::locate_read_data, take, 3}, fuzz::bytes_of(data, size));
  return 0;
}
