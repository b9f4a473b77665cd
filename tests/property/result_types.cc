// SPDX-License-Identifier: Apache-2.0
#include "tests/property/any_value.h"

namespace nfsrdma::property {

std::vector<WireType> result_types() {
  std::vector<WireType> types;
#define NFS4_ADD(op) types.push_back({#op "4res", std::make_unique<ValueOf<nfs4::op##4res>>()});
  NFS4_EACH_OP(NFS4_ADD)
#undef NFS4_ADD
  return types;
}

}  // namespace nfsrdma::property
