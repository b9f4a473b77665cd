// SPDX-License-Identifier: Apache-2.0
// finish_within: waits a limited time for a coroutine that cannot be cancelled.
#pragma once

#include "transport/runtime/loop.h"

namespace nfsrdma {

// Starts `task` on `loop`, which must be the caller's own. Returns true if the task ended within `patience`.
// Otherwise the task keeps running by itself, and everything it refers to must live as long as the loop.
Task<bool> finish_within(Loop& loop, Task<> task, Duration patience);

}  // namespace nfsrdma
