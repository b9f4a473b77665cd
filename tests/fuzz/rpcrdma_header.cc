// SPDX-License-Identifier: Apache-2.0
// Fuzz entry: an RPC-over-RDMA header of either version, as either side receives it, and private data. The
// header object is reused for all inputs, as a connection does.

#include "tests/fuzz/fuzz.h"
#include "xdr/rpcrdma/header.h"
#include "xdr/rpcrdma/private_data.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace nfsrdma;           // NOLINT
  using namespace nfsrdma::rpcrdma;  // NOLINT
  const ConstBytes input = fuzz::bytes_of(data, size);
  static header h;
  size_t length = 0;
  const Defect defect = decode(input, h, &length);
  fuzz::require(length <= input.size(), "the header ends in the message");
  fuzz::require(h.chunks.reads.size() + h.chunks.writes.all().size() + h.chunks.reply.size() <= size / 16,
                "no more segments than bytes for them");
  if (defect == Defect::kNone && (h.vers == kVersion1 || h.vers == kVersion2)) {
    ByteVector out;
    fuzz::require(encode(out, h), "what decodes can be encoded");
    fuzz::require(out.size() == encoded_bytes(h), "the size is the Sizer's");
    header again;
    fuzz::require(decode(out, again, &length) == Defect::kNone && length == out.size(), "and decodes");
    fuzz::require(again.chunks == h.chunks && again.error == h.error && again.properties == h.properties &&
                      again.inv_handle == h.inv_handle && again.type == h.type,
                  "to the same header");
  }
  const private_data found = find_private_data(input);
  fuzz::require(find_private_data(encode(found)) == found, "private data survives its own encoding");
  return 0;
}
