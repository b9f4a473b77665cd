// SPDX-License-Identifier: Apache-2.0
// Fault rules as people write them: what `nfsrdma-filer --fault` and --fault-plan take.
//
//     EVENT [OPERATION] [nth N] [times N|always|every N]: ACTION [ARGUMENT]
//
// EVENT     request (before it is executed), reply (after), accept (of a connection), header (of a call over
//           RDMA, before anything behind it is looked at)
// OPERATION of the COMPOUND, as in RFC 8881: WRITE, RENAME...; without: any
// nth N     the N-th such event triggers it (1); times N: and the following, N in all (1);
//           every N: and every N-th after it
// ACTION    cut | reset | drop | delay MILLISECONDS | answer OPERATION STATUS | truncate BYTES | flip OFFSET
// |
//           garbage BYTES | duplicate [COPIES] | behind [REPLIES] | restart | forget | expire | slots N |
//           credits N | recall | revoke (every delegation) | change true|frozen|restless|backwards (what
//           is told of change attributes) | error NAME [NUMBER [NUMBER]] (of RPC-over-RDMA, to a header)
//
// "request WRITE nth 3: cut", "reply RENAME always: delay 50", "request OPEN times 2: answer OPEN DELAY",
// "header nth 5: error REPLY_RESOURCE 9000".
// Empty lines and what follows a '#' are nothing. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "filer/fault_plan.h"
#include "xdr/support/result.h"

namespace nfsrdma::filer {

struct FaultRule {
  Trigger trigger;
  FaultAction action;
};

// Errors: EINVAL, with what is wrong.
Result<FaultRule> parse_fault_rule(std::string_view line);
// A file's content: a rule a line. The error names the line.
Result<std::vector<FaultRule>> parse_fault_rules(std::string_view text);

}  // namespace nfsrdma::filer
