// SPDX-License-Identifier: Apache-2.0
#include "faults.h"

#include <algorithm>

namespace chaos {

namespace {

const std::map<std::string, Action>& actions() {
  static const std::map<std::string, Action> all{
      {"cut", Action::Cut},           {"cut-middle", Action::CutMiddle},
      {"drop", Action::Drop},         {"delay", Action::Delay},
      {"flip", Action::Flip},         {"truncate", Action::Truncate},
      {"oversize", Action::Oversize}, {"duplicate", Action::Duplicate},
      {"garbage", Action::Garbage},   {"xid", Action::Xid},
      {"stall", Action::Stall},
  };
  return all;
}

std::optional<uint32_t> number(const std::string& text) {
  if (text.empty() || text.size() > 9 || text.find_first_not_of("0123456789") != std::string::npos)
    return std::nullopt;
  return static_cast<uint32_t>(std::stoul(text));
}

}  // namespace

std::string Faults::add_rule(const std::vector<std::string>& words) {
  if (words.size() < 4 || words.size() > 5) return "on call|reply OPERATION N|1/K ACTION [PARAMETER]";
  if (words[0] != "call" && words[0] != "reply") return "direction is call or reply";
  Rule rule{words[0] == "call" ? Direction::Call : Direction::Reply, 0, 0, 0, Action::Pass, 0};
  const auto operation = operation_number(words[1]);
  if (!operation) return "no operation " + words[1];
  rule.operation = *operation;
  const bool by_chance = words[2].starts_with("1/");
  const auto count = number(by_chance ? words[2].substr(2) : words[2]);
  if (!count || *count == 0) return "N or 1/K with numbers from 1";
  (by_chance ? rule.one_in : rule.nth) = *count;
  const auto action = actions().find(words[3]);
  if (action == actions().end()) return "no action " + words[3];
  rule.action = action->second;
  if (words.size() == 5) {
    const auto parameter = number(words[4]);
    if (!parameter) return "the parameter is a number";
    rule.parameter = *parameter;
  }
  rules_.push_back(rule);
  return {};
}

Verdict Faults::judge(Direction direction, const std::vector<uint32_t>& operations) {
  for (auto rule = rules_.begin(); rule != rules_.end(); ++rule) {
    if (rule->direction != direction) continue;
    const bool matches = rule->operation == kAny ||
                         std::find(operations.begin(), operations.end(), rule->operation) != operations.end();
    if (!matches) continue;
    if (rule->nth == 0) {
      if (random(rule->one_in) != 0) continue;
    } else if (--rule->nth > 0) {
      continue;
    }
    const Verdict verdict{rule->action, rule->parameter};
    if (rule->one_in == 0) rules_.erase(rule);
    ++triggered_;
    return verdict;
  }
  return {};
}

void Faults::spoil(std::string& record, const Verdict& verdict) {
  constexpr size_t kXid = 4;
  switch (verdict.action) {
    case Action::Flip:
      if (record.size() > kXid) {
        record[kXid + random(static_cast<uint32_t>(record.size() - kXid))] ^=
            static_cast<char>(1 + random(255));
      }
      break;
    case Action::Truncate:
      record.resize(record.size() -
                    std::min<size_t>(record.size(), std::max<uint32_t>(verdict.parameter, 1)));
      break;
    case Action::Garbage:
      for (char& byte : record) byte = static_cast<char>(random(256));
      break;
    case Action::Xid:
      if (!record.empty()) record[0] ^= 0x55;
      break;
    default: break;
  }
}

}  // namespace chaos
