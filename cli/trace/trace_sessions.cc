// SPDX-License-Identifier: Apache-2.0
#include "cli/trace/trace_sessions.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>

#include "cli/trace/trace_record.h"

namespace nfsrdma::cli {
namespace {

using Clock = std::chrono::steady_clock;

// Limits of one answer, so that it is smaller than kMaxResponseBytes.
constexpr size_t kMostOperations = 4096;
constexpr size_t kMostMessageBytes = 4u << 20;

std::string lower_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

std::string all_operations() {
  std::string text;
  for (size_t i = 0; i < fuse::kOperations; ++i) {
    const std::string name(fuse::name_of(static_cast<fuse::Operation>(i)));
    text += (text.empty() ? "" : ", ") + lower_case(name);
  }
  return text;
}

Outcome<uint64_t> operations_wanted(const Json& names) {
  uint64_t mask = 0;
  for (const Json& name : names) {
    const std::string text = name.is_string() ? name.get<std::string>() : std::string();
    const uint64_t before = mask;
    for (size_t i = 0; i < fuse::kOperations; ++i) {
      if (fuse::name_of(static_cast<fuse::Operation>(i)) == text) mask |= uint64_t{1} << i;
    }
    if (mask == before)
      return refuse(ToolExit::kFailed,
                    fmt::format("there is no operation \"{}\"; there are {}", text, all_operations()));
  }
  return mask;
}

}  // namespace

TraceSessions::TraceSessions(asio::io_context& context, Sources sources)
    : timer_(context), sources_(std::move(sources)) {}

TraceSessions::~TraceSessions() {
  if (sources_.capture) sources_.capture->stop();
}

Outcome<Json> TraceSessions::answer(const Json& request) {
  drop_silent();
  const uint64_t id = number_in(request, "id");
  if (id == 0) return begin(request);
  return number_in(request, "end") != 0 ? end(id) : continue_with(id);
}

Outcome<Json> TraceSessions::begin(const Json& request) {
  if (sessions_.size() == kMost)
    return refuse(ToolExit::kFailed, fmt::format("{} traces of this mount run already", kMost));
  Session session;
  if (number_in(request, "messages") != 0) {
    if (!sources_.capture)
      return refuse(ToolExit::kFailed, "the messages of an NFSv3 mount are not captured; use tcpdump");
    if (captures()) return refuse(ToolExit::kFailed, "another trace captures this mount's messages");
    sources_.capture->start();
  } else {
    fuse::OperationTracer::Filter filter;
    filter.at_least = std::chrono::nanoseconds(number_in(request, "at_least_ns"));
    if (const auto names = request.find("operations"); names != request.end() && names->is_array()) {
      const auto mask = operations_wanted(*names);
      if (!mask) return tl::unexpected(mask.error());
      filter.operations = *mask;
    }
    session.watch = sources_.tracer->watch(filter);
  }
  session.asked = Clock::now();
  sessions_.emplace(++last_id_, std::move(session));
  if (sessions_.size() == 1) look_again();
  return Json{{"id", last_id_}};
}

Outcome<Json> TraceSessions::continue_with(uint64_t id) {
  const auto found = sessions_.find(id);
  if (found == sessions_.end())
    return refuse(ToolExit::kFailed, "this trace has ended: it was not asked for in time");
  found->second.asked = Clock::now();
  return found->second.watch ? operations(found->second) : messages();
}

Json TraceSessions::end(uint64_t id) {
  sessions_.erase(id);
  drop_silent();
  return Json::object();
}

Json TraceSessions::operations(Session& session) const {
  Json list = Json::array();
  for (fuse::TracedOperation& done : session.watch->take(kMostOperations)) {
    TraceRecord record;
    record.operation = fuse::name_of(done.operation);
    record.errnum = done.errnum;
    record.process = done.process;
    record.command = std::move(done.command);
    record.uid = done.uid;
    record.offset = done.offset;
    record.size = done.size;
    record.at_us = std::chrono::duration_cast<std::chrono::microseconds>(done.at.time_since_epoch()).count();
    record.took_ns = static_cast<uint64_t>(done.took.count());
    if (!done.other_name.empty())
      record.new_path = sources_.path_of(std::move(done.other_node), std::move(done.other_name));
    record.path = sources_.path_of(std::move(done.node), std::move(done.name));
    list.push_back(to_json(record));
  }
  return {{"operations", std::move(list)}, {"lost", session.watch->take_lost()}};
}

Json TraceSessions::messages() {
  Json list = Json::array();
  for (const CapturedMessage& message : sources_.capture->take(kMostMessageBytes))
    list.push_back(to_json(message));
  return {{"messages", std::move(list)}, {"lost", sources_.capture->take_lost()}};
}

bool TraceSessions::captures() const {
  return std::any_of(sessions_.begin(), sessions_.end(), [](const auto& one) { return !one.second.watch; });
}

void TraceSessions::drop_silent() {
  const auto now = Clock::now();
  std::erase_if(sessions_, [&](const auto& one) { return now - one.second.asked > kPatience; });
  if (sources_.capture && !captures()) sources_.capture->stop();
}

void TraceSessions::look_again() {
  timer_.expires_after(kPatience);
  timer_.async_wait([this](std::error_code cancelled) {
    if (cancelled) return;
    drop_silent();
    if (!sessions_.empty()) look_again();
  });
}

}  // namespace nfsrdma::cli
