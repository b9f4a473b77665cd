// SPDX-License-Identifier: Apache-2.0
// Fuzz entry: a whole call as a server receives it: call header, AUTH_SYS credential, arguments.

#include "tests/fuzz/fuzz.h"
#include "xdr/nfs4/cb_compound.h"
#include "xdr/nfs4/compound.h"
#include "xdr/rpc.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace nfsrdma;  // NOLINT
  const ConstBytes input = fuzz::bytes_of(data, size);
  const auto prefix = rpc::peek(input);
  xdr::Decoder x(input);
  rpc::call_header header;
  if (!x(header)) return 0;
  fuzz::require(prefix && prefix->type == rpc::CALL && prefix->xid == header.xid,
                "peek agrees with the header");
  if (header.rpcvers != rpc::kRpcVersion) return 0;
  if (header.cred.flavor == rpc::AUTH_SYS) {
    rpc::authsys_parms parms;
    if (fuzz::decodes(header.cred.body, parms)) fuzz::survives_its_own_encoding(parms);
  }
  if (header.prog == nfs4::NFS4_PROGRAM) {
    nfs4::COMPOUND4args args;
    if (fuzz::decodes(x.rest(), args)) fuzz::survives_its_own_encoding(args);
  } else {
    nfs4::CB_COMPOUND4args args;
    if (fuzz::decodes(x.rest(), args)) fuzz::survives_its_own_encoding(args);
  }
  return 0;
}
