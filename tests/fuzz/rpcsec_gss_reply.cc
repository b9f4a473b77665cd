// SPDX-License-Identifier: Apache-2.0
// Fuzz entry: a reply to a call of flavor RPCSEC_GSS as a client receives it. It knows what it asked for, so
// the first byte says: INIT, integrity or privacy.

#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/input.h"
#include "xdr/rpcsec_gss.h"

namespace {

using namespace nfsrdma;  // NOLINT

void read_init(ConstBytes bytes) {
  rpc::rpc_gss_init_res result;
  if (!fuzz::decodes(bytes, result)) return;
  fuzz::survives_its_own_encoding(result);
  fuzz::require(result.handle.size() <= rpc::kMaxGssHandle, "a handle fits into a credential");
  fuzz::require(result.gss_token.size() <= rpc::kMaxGssToken, "a token has its limit");
}

void read_integrity(ConstBytes bytes) {
  rpc::rpc_gss_integ_data body;
  if (!fuzz::decodes(bytes, body)) return;
  fuzz::survives_its_own_encoding(body);
  rpc::rpc_gss_data_t inside;
  if (!fuzz::decodes(body.databody_integ, inside)) return;
  fuzz::survives_its_own_encoding(inside);
  fuzz::require(inside.arg.size() + 4 == body.databody_integ.size(), "the results are the whole rest");
}

void read_privacy(ConstBytes bytes) {
  rpc::rpc_gss_priv_data body;
  if (fuzz::decodes(bytes, body)) fuzz::survives_its_own_encoding(body);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::Input input(data, size);
  const unsigned asked_for = input.byte() % 3;
  xdr::Decoder x(input.bytes(size));
  rpc::reply_header header;
  if (!x(header) || !header.success()) return 0;
  if (asked_for == 0) read_init(x.rest());
  if (asked_for == 1) read_integrity(x.rest());
  if (asked_for == 2) read_privacy(x.rest());
  return 0;
}
