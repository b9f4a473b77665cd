// SPDX-License-Identifier: Apache-2.0
// The control protocol between the tools and a mount's daemon.
//
// One request, one response, one connection; each is one line of JSON.
//
//     {"command":"status"}                        -> {"ok":true,"result":{...}}
//     {"command":"log-level","level":"debug"}     -> {"ok":true,"result":{...}}
//     {"command":"nonsense"}                      -> {"ok":false,"error":"unknown command nonsense"}
//
// If the answer takes longer, the daemon first acknowledges the command, so that the tool knows that it was
// received:
//
//     {"command":"watch"}                         -> {"later":true}
//                                                 -> {"ok":true,"result":{...}}
//
// Both sides limit what they read: a request to 4 KiB, a response to 16 MiB. In text that is not UTF-8 (file
// names may hold any bytes) the invalid bytes are replaced. Pure functions.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "cli/support/outcome.h"

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

// Returns the `result` object of a response. Fails with ToolExit::kFailed and the text of the error in the
// response.
Outcome<Json> decode_response(std::string_view line);

// Returns a member of a JSON object; 0 or an empty string if it is missing or has another type. The mount's
// owner decides which program answers on the socket, so the tools must accept any answer.
uint64_t number_in(const Json& object, const char* name);
std::string text_in(const Json& object, const char* name);

}  // namespace nfsrdma::cli
