// SPDX-License-Identifier: Apache-2.0
// What the ceilings of a network client share: a process of their own at the far end of a TCP connection on
// loopback.
#pragma once

#include <functional>

// Starts a process that runs `serve` with its end of the connection, once the near end is there, and then
// ends. The near end, which is the caller's; -1 if there is no socket or no process.
int start_far_end(const std::function<void(int socket)>& serve);
