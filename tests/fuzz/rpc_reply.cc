// SPDX-License-Identifier: Apache-2.0
// Fuzz entry: a whole reply as a client receives it: peek(), reply header and error. The results are decoded
// in both ways that a client uses: as one COMPOUND4res, and piece by piece with READ data received elsewhere.

#include "tests/fuzz/fuzz.h"
#include "xdr/nfs4/compound.h"
#include "xdr/rpc.h"

namespace {

using namespace nfsrdma;  // NOLINT

void read_by_pieces(xdr::Decoder x) {
  static constexpr std::byte kElsewhere[16]{};
  x.set_bulk(kElsewhere);
  nfs4::compound_reply head;
  nfs4::SEQUENCE4res sequence;
  nfs4::PUTFH4res putfh;
  nfs4::READ4res read;
  if (!x(head) || !decode_res(x, sequence) || !decode_res(x, putfh) || !decode_res(x, read)) return;
  if (read.status != nfs4::NFS4_OK) return;
  fuzz::require(read.resok4.data.data() == kElsewhere && read.resok4.data.size() == sizeof(kElsewhere),
                "data received elsewhere is used as it is");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const ConstBytes input = fuzz::bytes_of(data, size);
  const auto prefix = rpc::peek(input);
  xdr::Decoder x(input);
  rpc::reply_header header;
  if (!x(header)) return 0;
  fuzz::require(prefix && prefix->type == rpc::REPLY && prefix->xid == header.xid,
                "peek agrees with the header");
  const auto checked = rpc::check(header, "COMPOUND");
  fuzz::require(checked.has_value() == header.success(), "a refusal is an error");
  if (!checked) {
    fuzz::require(!describe(checked.error()).empty(), "with a text");
    return 0;
  }
  read_by_pieces(x);
  nfs4::COMPOUND4res value;
  if (fuzz::decodes(x.rest(), value)) fuzz::survives_its_own_encoding(value);
  return 0;
}
