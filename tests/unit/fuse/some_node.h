// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "client/api/filesystem.h"

namespace nfsrdma::fuse::test {

class SomeNode final : public client::Node {
 private:
  void last_reference() noexcept override { delete this; }
};

}  // namespace nfsrdma::fuse::test
