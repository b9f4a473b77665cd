// SPDX-License-Identifier: Apache-2.0
// PipedPlace: memory to which a peer sends data; one range of it may be left in a pipe (bulk_data.h).
//
// The code that requested the data owns it. The object stays at its address while the memory is open to the
// peer. The owner looks at it only after the memory is closed.
#pragma once

#include "transport/memory/bulk_data.h"

namespace nfsrdma {

struct PipedPlace {
  BulkData data;
  PipePool* pipes = nullptr;  // null: no (further) pipe may be used
};

}  // namespace nfsrdma
