// SPDX-License-Identifier: Apache-2.0
// The control protocol between the tools and a mount's daemon.
//
// One request, one response, one connection; each is one line of JSON.
//
//     {"command":"status"}                        -> {"ok":true,"result":{...}}
//     {"command":"log-level","level":"debug"}     -> {"ok":true,"result":{...}}
//     {"command":"nonsense"}                      -> {"ok":false,"error":"unknown command nonsense"}
//
// A command whose answer takes its time is acknowledged first, so that the tool knows that it was heard:
//
//     {"command":"watch"}                         -> {"later":true}
//                                                 -> {"ok":true,"result":{...}}
//
// Both sides bound what they read: a request is at most 4 KiB, a response at most 16 MiB. Text that is not
// UTF-8 (file names may be anything) has its odd bytes replaced. Pure functions.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "cli/outcome.h"

namespace nfsrdma::cli {

using Json = nlohmann::json;

inline constexpr size_t kMaxRequestBytes = 4096;
inline constexpr size_t kMaxResponseBytes = 16u << 20;

// One line, newline included.
std::string encode_line(const Json& message);

// A request: an object with a string "command".
Outcome<Json> decode_request(std::string_view line);

Json success_response(Json result);
Json error_response(std::string_view text);

Json later_notice();
bool is_later_notice(std::string_view line);

// The result of a response, an object, or the error in it; ToolExit::kFailed.
Outcome<Json> decode_response(std::string_view line);

// A member of such an object; 0 or empty when it is missing or of another type: the mount's owner decides
// what runs behind its socket.
uint64_t number_in(const Json& object, const char* name);
std::string text_in(const Json& object, const char* name);

}  // namespace nfsrdma::cli
