// SPDX-License-Identifier: Apache-2.0
#include "tests/property/any_value.h"

namespace nfsrdma::property {

std::vector<WireType> callback_types() {
  std::vector<WireType> types;
#define NFS4_ADD(op)                                                            \
  types.push_back({#op "4args", std::make_unique<ValueOf<nfs4::op##4args>>()}); \
  types.push_back({#op "4res", std::make_unique<ValueOf<nfs4::op##4res>>()});
  NFS4_EACH_CB_OP(NFS4_ADD)
#undef NFS4_ADD
  types.push_back({"fattr4", std::make_unique<ValueOf<nfs4::fattr4>>()});
  types.push_back({"authsys_parms", std::make_unique<ValueOf<rpc::authsys_parms>>()});
  types.push_back({"mismatch_info", std::make_unique<ValueOf<rpc::mismatch_info>>()});
  return types;
}

}  // namespace nfsrdma::property
