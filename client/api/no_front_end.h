// SPDX-License-Identifier: Apache-2.0
// NoFrontEnd: for a Filesystem that is used directly, without a kernel that caches. Any loop.
#pragma once

#include <string>

#include "client/api/filesystem.h"

namespace nfsrdma::client {

class NoFrontEnd final : public FrontEnd {
 public:
  void invalidate_data(NodeRef) override {}
  Task<> drop_data(NodeRef) override { co_return; }
  void invalidate_attributes(NodeRef) override {}
  void invalidate_entry(NodeRef, std::string) override {}
};

}  // namespace nfsrdma::client
