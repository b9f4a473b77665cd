// SPDX-License-Identifier: Apache-2.0
// Starts the Kerberos helper of a mount, with the keeper that starts it again when it dies
// (transport/security/helper_keeper.h).
//
// Both are forked before the daemon has threads and before it gives up its rights. As root they keep the
// capabilities to become another user and to end what has become one, nothing else: what the helper reads, it
// reads as that user.
#pragma once

#include <memory>

#include "cli/support/outcome.h"
#include "transport/security/token_source.h"

namespace nfsrdma::cli {

// Call before any other thread exists. Fails with MountExit::kSystem.
Outcome<std::shared_ptr<security::TokenSource>> start_kerberos_helper();

}  // namespace nfsrdma::cli
