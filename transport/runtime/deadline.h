// SPDX-License-Identifier: Apache-2.0
// finish_within: bounded patience with a coroutine that cannot be cancelled.
#pragma once

#include "transport/runtime/loop.h"

namespace nfsrdma {

// Starts `task` on `loop` (the caller's own). True when it ended within `patience`; otherwise it runs on by
// itself, and whatever it refers to must live as long as the loop does.
Task<bool> finish_within(Loop& loop, Task<> task, Duration patience);

}  // namespace nfsrdma
