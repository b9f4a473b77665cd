// SPDX-License-Identifier: Apache-2.0
// Random bytes for identifiers that must be unguessable: session IDs and stateids. Any thread.
#pragma once

#include "xdr/support/bytes.h"

namespace nfsrdma::filer::state {

// Fills `bytes` by getrandom(2). Ends the process if that fails: with guessable session IDs, no client's
// state would be protected.
void fill_random(MutableBytes bytes);

}  // namespace nfsrdma::filer::state
