// SPDX-License-Identifier: Apache-2.0
// Crowd: selects which connections to close when there are too many, or when they hold too much memory.
//
// At the limit, a new connection replaces an existing one:
// - If connections that never used a session are more than an eighth of the limit, or if there are no others,
//   one of them is closed: the oldest one from the address that has most of them. A client has a session
//   within a few round trips.
// - Otherwise a client's connection is closed. The rule takes the address with most clients' connections, the
//   principal with most of these, and of its connections the one silent for longest. Its client reconnects
//   and finds its session again. A principal with at most a sixteenth of the limit loses none.
// - If that principal loses none, the oldest connection without a session is closed, as in the first rule. If
//   there is none, the new connection is refused.
//
// On loopback all peers have the same address and only principals tell them apart. Elsewhere a peer may claim
// any principal, so the address is compared first.
#pragma once

#include <map>
#include <vector>

#include "filer/links/link.h"

namespace nfsrdma::filer::links::crowd {

using Links = std::map<LinkId, LinkPtr>;

// At the limit of `most` connections: the one to close for a new connection. Null: refuse the new one.
LinkPtr goes_for_another(const Links& links, size_t most);
// Connections without a session that had no call since `then`.
std::vector<LinkPtr> idle_since(const Links& links, TimePoint then);
// The connections to close so that the others hold at most `most` bytes: again of the address and principal
// that hold most, the largest connection first.
std::vector<LinkPtr> hold_too_much(const Links& links, size_t most);

}  // namespace nfsrdma::filer::links::crowd
