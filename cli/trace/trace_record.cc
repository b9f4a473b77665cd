// SPDX-License-Identifier: Apache-2.0
#include "cli/trace/trace_record.h"

#include <fmt/core.h>

#include <array>
#include <cstring>
#include <ctime>

#include "cli/support/base64.h"

namespace nfsrdma::cli {
namespace {

std::string time_of_day(int64_t at_us) {
  const time_t seconds = at_us / 1'000'000;
  tm parts{};
  localtime_r(&seconds, &parts);
  return fmt::format("{:02}:{:02}:{:02}.{:06}", parts.tm_hour, parts.tm_min, parts.tm_sec, at_us % 1'000'000);
}

std::string result_of(int errnum) {
  if (errnum == 0) return "OK";
  const char* name = strerrorname_np(errnum);
  return name != nullptr ? name : fmt::format("errno {}", errnum);
}

std::string caller_of(const TraceRecord& r) {
  if (r.process == 0) return "kernel";
  return fmt::format("{}[{}]", r.command.empty() ? "?" : r.command, r.process);
}

}  // namespace

Json to_json(const TraceRecord& r) {
  Json json{{"operation", r.operation},
            {"errno", static_cast<uint64_t>(r.errnum)},
            {"pid", r.process},
            {"command", r.command},
            {"uid", r.uid},
            {"path", r.path},
            {"time_us", static_cast<uint64_t>(r.at_us)},
            {"took_ns", r.took_ns}};
  if (!r.new_path.empty()) json["new_path"] = r.new_path;
  if (r.size != 0) {
    json["offset"] = r.offset;
    json["size"] = r.size;
  }
  return json;
}

TraceRecord trace_record_from_json(const Json& json) {
  TraceRecord r;
  r.operation = text_in(json, "operation");
  r.errnum = static_cast<int>(number_in(json, "errno"));
  r.process = number_in(json, "pid");
  r.command = text_in(json, "command");
  r.uid = number_in(json, "uid");
  r.path = text_in(json, "path");
  r.new_path = text_in(json, "new_path");
  r.offset = number_in(json, "offset");
  r.size = number_in(json, "size");
  r.at_us = static_cast<int64_t>(number_in(json, "time_us"));
  r.took_ns = number_in(json, "took_ns");
  return r;
}

Json to_json(const CapturedMessage& message) {
  return {{"sent", message.sent ? 1u : 0u}, {"time_us", static_cast<uint64_t>(message.at_us)},
          {"protocol", message.protocol},   {"local", message.local},
          {"peer", message.peer},           {"bytes", to_base64(message.bytes)}};
}

Outcome<CapturedMessage> captured_message_from_json(const Json& json) {
  auto bytes = from_base64(text_in(json, "bytes"));
  if (!bytes) return refuse(ToolExit::kFailed, "the daemon's answer holds a message that is not base64");
  CapturedMessage message;
  message.sent = number_in(json, "sent") != 0;
  message.at_us = static_cast<int64_t>(number_in(json, "time_us"));
  message.protocol = text_in(json, "protocol");
  message.local = text_in(json, "local");
  message.peer = text_in(json, "peer");
  message.bytes = *std::move(bytes);
  return message;
}

std::string trace_line(const TraceRecord& r) {
  std::string line =
      fmt::format("{} {:<11} {:>10.3f} ms {:<8} {:<20} {}", time_of_day(r.at_us), r.operation,
                  static_cast<double>(r.took_ns) / 1e6, result_of(r.errnum), caller_of(r), r.path);
  if (!r.new_path.empty()) line += " -> " + r.new_path;
  if (r.size != 0) line += fmt::format(" {} bytes at {}", r.size, r.offset);
  return line;
}

}  // namespace nfsrdma::cli
