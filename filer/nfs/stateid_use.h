// SPDX-License-Identifier: Apache-2.0
// Stateids in operations' arguments: special stateids, the current stateid, and what a stateid allows (RFC
// 8881 sections 8.2.3 to 8.2.5, 9.1.2, 16.2.3.1.2).
//
// Under the server's lock. Results are valid as long as the lock is held.
#pragma once

#include <cstdint>

#include "filer/nfs/context.h"

namespace nfsrdma::filer::nfs {

// Returns `given`, or the current stateid if `given` stands for it: "When 'other' is zero and 'seqid' is one,
// the stateid represents the current stateid". The current stateid gets seqid zero unless `keep_seqid` is set
// (CLOSE, OPEN_DOWNGRADE). NFS4ERR_BAD_STATEID if there is no current stateid.
tree::Answer<nfs4::stateid4> substitute_current(const Context& c, const nfs4::stateid4& given,
                                                bool keep_seqid);

// The state that a stateid names; it must belong to the current file. `kinds` is a mask of StateKind.
tree::Answer<state::State*> named_state(Context& c, const nfs4::stateid4& given, unsigned kinds,
                                        bool keep_seqid = false);

// The state for READ, WRITE or a SETATTR of the size; null for a special stateid. `access` is
// OPEN4_SHARE_ACCESS_READ or _WRITE. Errors: LOCKED, OPENMODE, GRACE, DELAY (a delegation is being recalled)
// and the stateid errors.
tree::Answer<state::State*> io_state(Context& c, const nfs4::stateid4& given, uint32_t access);

// Recalls other clients' delegations that conflict with a reader, or with a writer if `wants_write` is set.
// Returns true if there are any; the operation is then answered with NFS4ERR_DELAY.
bool recall_conflicting(Context& c, const tree::Node& node, bool wants_write);

}  // namespace nfsrdma::filer::nfs
