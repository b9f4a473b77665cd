// SPDX-License-Identifier: Apache-2.0
// NamesState: which names of a directory are valid. Guarded by its Node's mutex.
#pragma once

#include <cstdint>

namespace nfsrdma::client {

struct NamesState {
  uint64_t epoch = 1;  // names learnt in an earlier epoch are only hints
  // Our own change was the last one, but the server could not say whether it was the only one (change_info4
  // not atomic). Verify the names again after acdirmax at the latest.
  bool uncertain = false;

  void others_changed() {
    uncertain = false;
    ++epoch;
  }
};

}  // namespace nfsrdma::client
