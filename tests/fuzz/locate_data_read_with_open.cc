// SPDX-License-Identifier: Apache-2.0
// Fuzz entry: locating the data that was read with an OPEN, in a reply that is still arriving.

#include "tests/fuzz/read_shape.h"

namespace {

using namespace nfsrdma;  // NOLINT

Result<nfs4::READ4res> take(client::nfs4::CompoundReply& reply) {
  if (Result<> put = reply.expect<nfs4::PUTFH4res>(); !put) return fail(std::move(put.error()));
  if (Result<> open = reply.expect<nfs4::OPEN4res>(); !open) return fail(std::move(open.error()));
  if (Result<> access = reply.expect<nfs4::ACCESS4res>(); !access) return fail(std::move(access.error()));
  if (Result<> got = reply.expect<nfs4::GETATTR4res>(); !got) return fail(std::move(got.error()));
  return reply.take<nfs4::READ4res>();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::locates_as_it_decodes({client::nfs4::locate_data_read_with_open, take, 6},
                              fuzz::bytes_of(data, size));
  return 0;
}
