// SPDX-License-Identifier: Apache-2.0
// Parser for the fault rules that `nfsrdma-filer --fault` and --fault-plan take. Pure functions.
//
//     EVENT [OPERATION] [nth N] [times N|always|every N]: ACTION [ARGUMENT]
//
// EVENT      request (before execution), reply (after execution), accept (of a connection),
//            header (a call's RPC-over-RDMA header was received, the rest not looked at)
// OPERATION  an operation of the COMPOUND, named as in RFC 8881: WRITE, RENAME...; omitted: any
// nth N      the N-th such event is the first to trigger the action (default 1)
// times N    it triggers at N events in all (default 1); always: without limit;
//            every N: at every N-th event from there on
// ACTION     cut, reset, drop, delay MILLISECONDS, answer OPERATION STATUS, truncate BYTES,
//            flip OFFSET, garbage BYTES, duplicate [COPIES], behind [REPLIES], restart, forget,
//            expire, slots N, credits N, recall and revoke (every delegation),
//            change true|frozen|restless|backwards (how change attributes are reported),
//            error NAME [NUMBER [NUMBER]] (an RDMA_ERROR; only for header)
//
// Examples:
//     request WRITE nth 3: cut
//     reply RENAME always: delay 50
//     request OPEN times 2: answer OPEN DELAY
//     header nth 5: error REPLY_RESOURCE 9000
//
// Empty lines are ignored, and so is everything after a '#'.
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

// Errors: EINVAL; the text says what is wrong.
Result<FaultRule> parse_fault_rule(std::string_view line);
// Parses a file's content, one rule a line. The error names the line.
Result<std::vector<FaultRule>> parse_fault_rules(std::string_view text);

}  // namespace nfsrdma::filer
