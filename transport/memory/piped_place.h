// SPDX-License-Identifier: Apache-2.0
// PipedPlace: memory that a peer's data goes to, of which one range may be left in a pipe (bulk_data.h).
//
// Who wants the data owns it; it stays where it is while the memory is open to the peer, and its owner looks
// at it only when the memory is closed.
#pragma once

#include "transport/memory/bulk_data.h"

namespace nfsrdma {

struct PipedPlace {
  BulkData data;
  PipePool* pipes = nullptr;  // null: no pipe is to be lent (any more)
};

}  // namespace nfsrdma
