// SPDX-License-Identifier: Apache-2.0
// Stateids as operations are given them: special ones, the current one, and what they allow (RFC 8881
// sections 8.2.3 to 8.2.5, 9.1.2, 16.2.3.1.2).
//
// Under the server's lock; what is returned is valid as long as the lock is held.
#pragma once

#include <cstdint>

#include "filer/nfs/context.h"

namespace nfsrdma::filer {

// "When 'other' is zero and 'seqid' is one, the stateid represents the current stateid": puts that in its
// place, with a seqid of zero unless `keep_seqid` (CLOSE, OPEN_DOWNGRADE). BAD_STATEID without one.
Answer<nfs4::stateid4> substitute_current(const Context& c, const nfs4::stateid4& given, bool keep_seqid);

// A stateid that must name state of the current file. `kinds` is a mask of StateKind.
Answer<State*> named_state(Context& c, const nfs4::stateid4& given, unsigned kinds, bool keep_seqid = false);

// What READ, WRITE and a SETATTR of the size are done under: a state, or null for a special stateid. `access`
// is one of OPEN4_SHARE_ACCESS_READ and _WRITE. Answers LOCKED, OPENMODE, GRACE, DELAY (a delegation is being
// recalled) and the stateid errors.
Answer<State*> io_state(Context& c, const nfs4::stateid4& given, uint32_t access);

// Delegations of other clients that `wants_write` or a mere reader is in conflict with are recalled; true
// when there are any, and the operation is to be answered with DELAY.
bool recall_conflicting(Context& c, const Node& node, bool wants_write);

}  // namespace nfsrdma::filer
