// SPDX-License-Identifier: Apache-2.0
// Fuzz entry: a call of flavor RPCSEC_GSS as a server receives it: credential, arguments of INIT, protected
// body.

#include "tests/fuzz/fuzz.h"
#include "xdr/rpcsec_gss.h"

namespace {

using namespace nfsrdma;  // NOLINT

template <class T>
void decode_and_encode(ConstBytes bytes) {
  T value{};
  if (fuzz::decodes(bytes, value)) fuzz::survives_its_own_encoding(value);
}

void read_body(ConstBytes bytes, rpc::rpc_gss_service_t service) {
  if (service == rpc::rpc_gss_svc_privacy) return decode_and_encode<rpc::rpc_gss_priv_data>(bytes);
  rpc::rpc_gss_integ_data body;
  if (!fuzz::decodes(bytes, body)) return;
  fuzz::survives_its_own_encoding(body);
  fuzz::require(body.checksum.size() <= rpc::kMaxGssChecksum, "a checksum fits into a verifier");
  decode_and_encode<rpc::rpc_gss_data_t>(body.databody_integ);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  xdr::Decoder x(fuzz::bytes_of(data, size));
  rpc::call_header header;
  if (!x(header) || header.rpcvers != rpc::kRpcVersion || header.cred.flavor != rpc::RPCSEC_GSS) return 0;
  rpc::rpc_gss_cred_t cred;
  if (!fuzz::decodes(header.cred.body, cred)) return 0;
  fuzz::survives_its_own_encoding(cred);
  if (cred.version != rpc::RPCSEC_GSS_VERS_1) return 0;
  fuzz::require(cred.v1.handle.size() <= rpc::kMaxGssHandle, "a handle fits into a credential");
  if (rpc::creates_context(cred.v1.gss_proc)) {
    decode_and_encode<rpc::rpc_gss_init_arg>(x.rest());
  } else {
    read_body(x.rest(), cred.v1.service);
  }
  return 0;
}
