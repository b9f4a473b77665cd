// SPDX-License-Identifier: Apache-2.0
// Identifiers that nobody can guess: session IDs and stateids. Any thread.
#pragma once

#include "xdr/support/bytes.h"

namespace nfsrdma::filer {

// Fills `bytes` from the kernel's generator (getrandom(2)). Ends the process where there is none: a server
// whose session IDs can be guessed protects nobody's state.
void fill_random(MutableBytes bytes);

}  // namespace nfsrdma::filer
