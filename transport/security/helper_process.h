// SPDX-License-Identifier: Apache-2.0
// The Kerberos helper: a process that starts one worker process for each exchange. It has one thread, holds
// no secrets and parses nothing, so it is not what breaks; a worker that hangs is killed, one that crashes
// ends its own exchange only.
//
// A worker becomes its user, who may then send it signals. SIGALRM does not end a process that he has
// stopped, so the helper ends it (SIGKILL, as root with CAP_KILL) as soon as it sees that, and ends those
// that are there for too long. A user has few workers at a time, so that he cannot take those of others.
//
//     daemon --- socket ---> helper   (one descriptor and the user's ID for each exchange)
//        \                     | fork
//         +---- exchange ---- worker  (helper_worker.h)
//
// It ends when the daemon closes the socket.
#pragma once

#include <chrono>

#include "transport/security/helper_worker.h"

namespace nfsrdma::security {

struct HelperOptions {
  // Workers at a time; further exchanges wait for the end of one.
  unsigned most_workers = 16;
  unsigned most_of_a_user = 2;
  // Exchanges that wait for a worker. The others wait in the socket, which holds few: then HelperLink fails.
  unsigned most_waiting = 256;
  // How long a worker may take for one step. libkrb5 asks each KDC several times over UDP and TCP before it
  // gives up.
  std::chrono::seconds worker_limit{25};
  // How long a worker may be there, with its waits for the server.
  std::chrono::seconds exchange_limit{120};
};

// Runs the helper in this process, which must have a single thread, until the daemon closes its end.
void serve_helper(int socket, const FindCredentials& find, const HelperOptions& options = {});

}  // namespace nfsrdma::security
