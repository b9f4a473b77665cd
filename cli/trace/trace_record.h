// SPDX-License-Identifier: Apache-2.0
// The requests of `trace` to a daemon, and the answers: the JSON of both ends in one place. Plain values and
// pure functions.
//
//     {"command":"trace","operations":["READ"],"at_least_ns":1000000}  -> {"id":7}
//     {"command":"trace","messages":1}                                 -> {"id":8}
//     {"command":"trace","id":7}  -> {"operations":[...],"lost":0}
//     {"command":"trace","id":8}  -> {"messages":[...],"lost":0}
//     {"command":"trace","id":7,"end":1}  -> {}
//
// A trace also ends if the tool does not fetch from it within TraceSessions::kPatience.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/control/control_protocol.h"
#include "cli/support/outcome.h"
#include "cli/trace/message_capture.h"

namespace nfsrdma::cli {

struct TraceRecord {
  std::string operation;  // "READ"
  int errnum = 0;
  uint64_t process = 0;  // 0: the kernel, or unknown
  std::string command;
  uint64_t uid = 0;
  std::string path;      // within the mount, or "inode N"
  std::string new_path;  // RENAME
  uint64_t offset = 0;   // READ, WRITE: bytes
  uint64_t size = 0;     // READ, WRITE: bytes
  int64_t at_us = 0;     // microseconds since 1970, UTC
  uint64_t took_ns = 0;
};

Json to_json(const TraceRecord& record);
TraceRecord trace_record_from_json(const Json& json);

Json to_json(const CapturedMessage& message);
// Fails with ToolExit::kFailed if the message's bytes are not Base64.
Outcome<CapturedMessage> captured_message_from_json(const Json& json);

// Formats one line, without a newline. It begins with the local time of day.
std::string trace_line(const TraceRecord& record);

}  // namespace nfsrdma::cli
