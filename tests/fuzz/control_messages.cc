// SPDX-License-Identifier: Apache-2.0
// Fuzz entry: the control protocol in both directions. Any process that can connect may send requests to a
// daemon; a mount's owner controls the program behind its socket and may send any replies to the tools.
//
// Checked: a message that was understood is written as one line without control characters, and is understood
// as the same. An acknowledgement is no answer. Members of the wrong type count as absent. A snapshot that
// was read, written and read again is the same.
#include "cli/control/control_protocol.h"

#include <algorithm>

#include "cli/stats/snapshot.h"
#include "tests/fuzz/text.h"

namespace {

using namespace nfsrdma;  // NOLINT: used throughout this file
using cli::Json;
using fuzz::require;

std::string line_of(const Json& message) {
  std::string line = cli::encode_line(message);
  require(line.ends_with('\n'), "a message ends its line");
  line.pop_back();
  require(std::none_of(line.begin(), line.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; }),
          "and has one line only");
  return line;
}

void check_members(const Json& object) {
  for (const auto& [name, value] : object.items()) {
    const uint64_t number = cli::number_in(object, name.c_str());
    const std::string text = cli::text_in(object, name.c_str());
    require(number == 0 || (value.is_number_unsigned() && value == number) || name.find('\0') != name.npos,
            "a number is the member's");
    require(text.empty() || (value.is_string() && value == text) || name.find('\0') != name.npos,
            "a text is the member's");
  }
}

void check_snapshot(const Json& result) {
  const auto snapshot = cli::snapshot_from_json(result);
  fuzz::require_reason(snapshot, cli::ToolExit::kFailed);
  if (!snapshot) return;
  const Json written = cli::to_json(*snapshot);
  const auto again = cli::snapshot_from_json(written);
  require(again && cli::to_json(*again) == written, "a snapshot is read as it was written");
  (void)cli::status_text(*snapshot);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view line = fuzz::text_of(data, size);
  if (const auto request = cli::decode_request(line)) {
    require(!cli::text_in(*request, "command").empty() || request->at("command") == "",
            "a request has a command");
    const auto again = cli::decode_request(line_of(*request));
    require(again && *again == *request, "a request is understood as it was written");
    check_members(*request);
  }
  const auto response = cli::decode_response(line);
  require(response || response.error().exit_code == static_cast<int>(cli::ToolExit::kFailed),
          "it says that it failed");
  if (response) {
    const auto again = cli::decode_response(line_of(cli::success_response(*response)));
    require(again && *again == *response, "a result is understood as it was written");
    check_members(*response);
    check_snapshot(*response);
  } else {
    const auto again = cli::decode_response(line_of(cli::error_response(response.error().text)));
    require(!again && again.error().text == response.error().text,
            "an error is understood as it was written");
  }
  if (cli::is_later_notice(line)) require(!response, "an acknowledgement is no answer");
  return 0;
}
