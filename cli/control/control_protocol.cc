// SPDX-License-Identifier: Apache-2.0
#include "cli/control/control_protocol.h"

#include <fmt/core.h>

namespace nfsrdma::cli {

std::string encode_line(const Json& message) {
  return message.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
}

Outcome<Json> decode_request(std::string_view line) {
  Json request = Json::parse(line, nullptr, false);
  if (request.is_discarded() || !request.is_object()) return refuse(ToolExit::kFailed, "not a JSON object");
  const auto command = request.find("command");
  if (command == request.end() || !command->is_string()) return refuse(ToolExit::kFailed, "no command");
  return request;
}

Json success_response(Json result) {
  return {{"ok", true}, {"result", std::move(result)}};
}

Json error_response(std::string_view text) {
  return {{"ok", false}, {"error", std::string(text)}};
}

Json later_notice() {
  return {{"later", true}};
}

bool is_later_notice(std::string_view line) {
  const Json message = Json::parse(line, nullptr, false);
  return message == later_notice();
}

Outcome<Json> decode_response(std::string_view line) {
  Json response = Json::parse(line, nullptr, false);
  const auto broken = [] { return refuse(ToolExit::kFailed, "the daemon's answer is not understandable"); };
  if (response.is_discarded() || !response.is_object()) return broken();
  const auto ok = response.find("ok");
  if (ok == response.end() || !ok->is_boolean()) return broken();
  if (!ok->get<bool>()) {
    const auto error = response.find("error");
    if (error == response.end() || !error->is_string()) return broken();
    return refuse(ToolExit::kFailed, error->get<std::string>());
  }
  const auto result = response.find("result");
  if (result == response.end() || !result->is_object()) return broken();
  return std::move(*result);
}

uint64_t number_in(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_number_unsigned() ? found->get<uint64_t>() : 0;
}

std::string text_in(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

}  // namespace nfsrdma::cli
