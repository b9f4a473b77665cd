// SPDX-License-Identifier: Apache-2.0
// Crowd: which connection goes where there are too many, or where they hold too much memory.
//
// A newcomer gets in as long as somebody has more than his share. First go connections that have never used a
// session, the oldest first of the address that has most of them: a client has its session within some round
// trips. An eighth of what there may be is left to these: below that it is the turn of the address with most
// connections, and there of the principal whose sessions use most: his connection that was silent for
// longest. He comes back and finds his session. Who has no more than a sixteenth of what there may be loses
// none that way.
//
// On loopback all peers have one address, and principals are what tells them apart; elsewhere a peer may
// claim to be anybody, so that the address comes first.
#pragma once

#include <map>
#include <vector>

#include "filer/net/link.h"

namespace nfsrdma::filer::crowd {

using Links = std::map<LinkId, LinkPtr>;

// Where there are `most`: who goes for a newcomer. Nothing: the newcomer.
LinkPtr goes_for_another(const Links& links, size_t most);
// Connections without a session on which nothing was called since `then`.
std::vector<LinkPtr> idle_since(const Links& links, TimePoint then);
// Which ones go so that the rest holds no more than `most` bytes: again of who holds most, its largest first.
std::vector<LinkPtr> hold_too_much(const Links& links, size_t most);

}  // namespace nfsrdma::filer::crowd
