// SPDX-License-Identifier: Apache-2.0
// The fabrics for the conformance tests. A new one is one line in fabrics.cc.
#pragma once

#include <string>
#include <vector>

#include "tests/unit/fabric/support/fabric_pair.h"

namespace nfsrdma::test {

struct FabricCase {
  std::string name;
  MakeFabric make;
  std::string address;         // to listen on and to connect to
  std::string lacking;         // why it cannot run on this machine; empty: it can
  BufferPool* pool = nullptr;  // the pool that it has registered; null: it needs none
};

inline void PrintTo(const FabricCase& c, std::ostream* out) {
  *out << c.name;
}

const std::vector<FabricCase>& fabrics();

class Conformance : public testing::TestWithParam<FabricCase> {
 protected:
  void SetUp() override {
    if (!GetParam().lacking.empty()) GTEST_SKIP() << GetParam().lacking;
  }
  FabricPair pair{GetParam().make, GetParam().address};
};

inline std::string name_of(const testing::TestParamInfo<FabricCase>& info) {
  return info.param.name;
}

}  // namespace nfsrdma::test
