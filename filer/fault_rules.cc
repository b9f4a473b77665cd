// SPDX-License-Identifier: Apache-2.0
#include "filer/fault_rules.h"

#include <algorithm>
#include <cerrno>
#include <charconv>

namespace nfsrdma::filer {

using namespace nfs4;

namespace {

tl::unexpected<Error> wrong(std::string why) {
  return fail(system_error(EINVAL, "fault", std::move(why)));
}

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  for (size_t at = 0; (at = text.find_first_not_of(" \t\r", at)) != text.npos;) {
    const size_t end = std::min(text.find_first_of(" \t\r", at), text.size());
    words.emplace_back(text.substr(at, end - at));
    at = end;
  }
  return words;
}

std::optional<unsigned> number(const std::string& word) {
  unsigned value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc{} || end != word.data() + word.size() || value > 1'000'000'000) return std::nullopt;
  return value;
}

std::optional<nfs_opnum4> operation(const std::string& name) {
  for (uint32_t op = OP_ACCESS; op <= OP_RECLAIM_COMPLETE; ++op) {
    const auto candidate = static_cast<nfs_opnum4>(op);
    if (name == op_name(candidate)) return candidate;
  }
  return std::nullopt;
}

std::optional<nfsstat4> status(const std::string& name) {
  constexpr uint32_t kHighest = 11000;
  for (uint32_t value = 1; value < kHighest; ++value) {
    const auto candidate = static_cast<nfsstat4>(value);
    const std::string known = name_of(candidate);
    if (known == name || known == "NFS4ERR_" + name) return candidate;
  }
  return std::nullopt;
}

Result<Trigger> parse_trigger(const std::vector<std::string>& words) {
  if (words.empty()) return wrong("there is no event: request, reply, accept or header");
  Trigger trigger;
  if (words[0] == "request") {
    trigger = on::any_request();
  } else if (words[0] == "reply") {
    trigger = on::any_reply();
  } else if (words[0] == "accept") {
    trigger = on::accept();
  } else if (words[0] == "header") {
    trigger = on::header();
  } else {
    return wrong("'" + words[0] + "' is no event: request, reply, accept or header");
  }
  for (size_t i = 1; i < words.size(); ++i) {
    if (words[i] == "always") {
      trigger = trigger.always();
      continue;
    }
    if (words[i] == "nth" || words[i] == "times" || words[i] == "every") {
      const auto n = i + 1 < words.size() ? number(words[i + 1]) : std::nullopt;
      if (!n || *n == 0) return wrong("'" + words[i] + "' takes a number from 1 on");
      if (words[i] == "nth") trigger = trigger.nth(*n);
      if (words[i] == "times") trigger = trigger.times(*n);
      if (words[i] == "every") trigger = trigger.every_nth(*n).always();
      ++i;
      continue;
    }
    trigger.op = operation(words[i]);
    if (!trigger.op) return wrong("'" + words[i] + "' is no operation of NFSv4.1");
  }
  return trigger;
}

Result<FaultAction> parse_answer(const std::vector<std::string>& words) {
  const auto op = words.size() == 3 ? operation(words[1]) : std::nullopt;
  const auto code = words.size() == 3 ? status(words[2]) : std::nullopt;
  if (!op || !code) return wrong("'answer' takes an operation and a status: answer OPEN DELAY");
  return FaultAction(fault::Answer{*op, *code});
}

Result<FaultAction> parse_error(const std::vector<std::string>& words) {
  static constexpr std::pair<std::string_view, rpcrdma::errcode> kCodes[] = {
      {"VERS", rpcrdma::ERR_VERS},
      {"CHUNK", rpcrdma::ERR_CHUNK},
      {"BAD_XDR", rpcrdma::RDMA2_ERR_BAD_XDR},
      {"INVAL_HTYPE", rpcrdma::RDMA2_ERR_INVAL_HTYPE},
      {"READ_CHUNKS", rpcrdma::RDMA2_ERR_READ_CHUNKS},
      {"WRITE_CHUNKS", rpcrdma::RDMA2_ERR_WRITE_CHUNKS},
      {"SEGMENTS", rpcrdma::RDMA2_ERR_SEGMENTS},
      {"WRITE_RESOURCE", rpcrdma::RDMA2_ERR_WRITE_RESOURCE},
      {"REPLY_RESOURCE", rpcrdma::RDMA2_ERR_REPLY_RESOURCE},
      {"SYSTEM", rpcrdma::RDMA2_ERR_SYSTEM},
  };
  const auto at = [&](size_t i) { return i < words.size() ? number(words[i]) : std::optional(0U); };
  const auto known = words.size() < 2
                         ? std::end(kCodes)
                         : std::ranges::find(kCodes, words[1], [](const auto& c) { return c.first; });
  if (words.size() > 4 || known == std::end(kCodes) || !at(2) || !at(3))
    return wrong("'error' takes an error of RPC-over-RDMA and its numbers: error REPLY_RESOURCE 9000");
  return FaultAction(fault::RefuseHeader{{known->second, *at(2), *at(3)}});
}

Result<FaultAction> parse_change(const std::vector<std::string>& words) {
  static constexpr std::pair<std::string_view, tree::ChangeTold> kTold[] = {
      {"true", tree::ChangeTold::kTrue},
      {"frozen", tree::ChangeTold::kFrozen},
      {"restless", tree::ChangeTold::kRestless},
      {"backwards", tree::ChangeTold::kBackwards}};
  const auto told = words.size() == 2
                        ? std::ranges::find(kTold, words[1], [](const auto& t) { return t.first; })
                        : std::end(kTold);
  if (told == std::end(kTold)) return wrong("'change' takes true, frozen, restless or backwards");
  return FaultAction(fault::TellChange{told->second});
}

Result<FaultAction> parse_action(const std::vector<std::string>& words) {
  if (words.empty()) return wrong("there is no action");
  const std::string& name = words[0];
  if (name == "answer") return parse_answer(words);
  if (name == "error") return parse_error(words);
  if (name == "change") return parse_change(words);
  const std::optional<unsigned> n = words.size() == 2 ? number(words[1]) : std::nullopt;
  if (words.size() > 2 || (words.size() == 2 && !n)) return wrong("'" + name + "' takes one number at most");
  static constexpr std::string_view kCounting[] = {"delay",   "truncate", "flip",
                                                   "garbage", "slots",    "credits"};
  const bool counts = std::ranges::find(kCounting, name) != std::end(kCounting);
  if (counts && !n) return wrong("'" + name + "' takes a number");
  if (!counts && name != "duplicate" && name != "behind" && n) return wrong("'" + name + "' takes no number");
  if (name == "cut") return FaultAction(fault::Cut{});
  if (name == "reset") return FaultAction(fault::Cut{.abort = true});
  if (name == "drop") return FaultAction(fault::Drop{});
  if (name == "delay") return FaultAction(fault::Delay{std::chrono::milliseconds(*n)});
  if (name == "truncate") return FaultAction(fault::truncate_to(*n));
  if (name == "flip") return FaultAction(fault::flip(*n, std::byte{1}));
  if (name == "garbage") return FaultAction(fault::garbage(*n));
  if (name == "duplicate") return FaultAction(fault::Duplicate{n.value_or(1)});
  if (name == "behind") return FaultAction(fault::HoldBehind{n.value_or(1)});
  if (name == "slots") return FaultAction(fault::Slots{*n});
  if (name == "credits") return FaultAction(fault::Credits{*n});
  if (name == "restart") return FaultAction(fault::Restart{});
  if (name == "forget") return FaultAction(fault::Restart{.forget_reclaims = true});
  if (name == "recall") return FaultAction(fault::Recall{});
  if (name == "revoke") return FaultAction(fault::Revoke{});
  if (name == "expire") return FaultAction(fault::ExpireLease{});
  return wrong("'" + name + "' is no action");
}

// Whether the action has an effect on events of this kind (fault_plan.h).
bool means_something(FaultEvent::Kind kind, const FaultAction& action) {
  using Kind = FaultEvent::Kind;
  const auto is_any_of = [&](auto... samples) {
    return (std::holds_alternative<decltype(samples)>(action) || ...);
  };
  if (is_any_of(fault::Cut{})) return true;
  if (is_any_of(fault::RefuseHeader{})) return kind == Kind::kHeader;
  if (is_any_of(fault::Extra{})) return kind == Kind::kAccept || kind == Kind::kReply;
  if (kind == Kind::kAccept || kind == Kind::kHeader) return false;
  if (is_any_of(fault::Answer{})) return kind == Kind::kRequest;
  if (is_any_of(fault::Mangle{}, fault::Duplicate{}, fault::HoldBehind{})) return kind == Kind::kReply;
  return true;
}

}  // namespace

Result<FaultRule> parse_fault_rule(std::string_view line) {
  const size_t colon = line.find(':');
  if (colon == line.npos)
    return wrong("a rule is EVENT [OPERATION] [nth N] [times N|always|every N]: ACTION");
  Result<Trigger> trigger = parse_trigger(words_of(line.substr(0, colon)));
  if (!trigger) return fail(std::move(trigger).error());
  Result<FaultAction> action = parse_action(words_of(line.substr(colon + 1)));
  if (!action) return fail(std::move(action).error());
  if (!means_something(trigger->kind, *action)) return wrong("this action means nothing to this event");
  return FaultRule{*std::move(trigger), *std::move(action)};
}

Result<std::vector<FaultRule>> parse_fault_rules(std::string_view text) {
  std::vector<FaultRule> rules;
  for (size_t number = 1; !text.empty(); ++number) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    line = line.substr(0, line.find('#'));
    if (words_of(line).empty()) continue;
    Result<FaultRule> rule = parse_fault_rule(line);
    if (!rule) {
      Error error = std::move(rule).error();
      error.cause = "line " + std::to_string(number) + ": " + error.cause;
      return fail(std::move(error));
    }
    rules.push_back(*std::move(rule));
  }
  return rules;
}

}  // namespace nfsrdma::filer
