// SPDX-License-Identifier: Apache-2.0
// The keeper of a mount's Kerberos helper (helper_process.h): a process that starts the helper, waits, and
// starts it again when it dies.
//
//     daemon --- socket ---> helper
//                  \          | fork
//                   +------ keeper
//
// The keeper is not the daemon's child: it may end long before the daemon, which waits for no child. Keeper
// and helper have no file of the daemon's but the socket, and end when the daemon closes it or dies.
#pragma once

#include <chrono>
#include <functional>

#include "transport/runtime/fd.h"
#include "transport/security/helper_process.h"
#include "xdr/support/result.h"

namespace nfsrdma::security {

struct KeeperOptions {
  // Gives up, in the keeper, the rights that keeper and helper do not need. False: the keeper ends.
  std::function<bool()> give_up_rights;
  FindCredentials find;
  HelperOptions helper{};
};

// Starts a keeper. Call before this process has other threads. Returns the daemon's end of the socket, for
// HelperLink. Errors: Layer::kSystem.
Result<Fd> start_keeper(const KeeperOptions& options);

// How long to wait for the next helper after one has died. `last`: how long it was before that one (zero: it
// was the first); `lived`: how long it was there.
std::chrono::seconds pause_after(std::chrono::seconds last, std::chrono::seconds lived);

}  // namespace nfsrdma::security
