// SPDX-License-Identifier: Apache-2.0
// Shared by the ceilings of a network client: a separate process at the far end of a TCP connection on
// loopback.
#pragma once

#include <functional>

// Starts a process that runs `serve` with its end of the connection and then ends. Returns the near end,
// which the caller owns, or -1 if there is no socket or no process.
int start_far_end(const std::function<void(int socket)>& serve);
