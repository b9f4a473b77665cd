// SPDX-License-Identifier: Apache-2.0
#include "cli/bench/wording.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <string_view>

namespace nfsrdma::cli::bench {
namespace {

// Phrases for a quantity: "A {verb} 12 % {more} than B", "A {verb} {less} than B for read (12 %)", "A {verb}
// 3.4 times {as} as B". For a single value: "A {reaches} 0.28 s/GiB{of}". With `part`: "The {part} of A
// {verb} … than those of B".
struct Words {
  std::string_view key, verb, more, less, as, reaches, of = "", part = "";
};

constexpr Words kWords[] = {
    {"mib_per_s", "is", "faster", "slower", "as fast", "reaches"},
    {"ops_per_s", "is", "faster", "slower", "as fast", "reaches"},
    {"cpu_per_gib", "takes", "more CPU", "less CPU", "as much CPU", "takes", " of CPU"},
    {"cpu_us_per_op", "takes", "more CPU", "less CPU", "as much CPU", "takes", " of CPU"},
    {"application_cpu_per_gib", "costs the application", "more CPU", "less CPU", "as much CPU",
     "costs the application", " of CPU"},
    {"application_cpu_us_per_op", "costs the application", "more CPU", "less CPU", "as much CPU",
     "costs the application", " of CPU"},
    {"server_cpu_per_gib", "costs the server", "more CPU", "less CPU", "as much CPU", "costs the server",
     " of CPU"},
    {"server_cpu_us_per_op", "costs the server", "more CPU", "less CPU", "as much CPU", "costs the server",
     " of CPU"},
    {"cpu_percent", "takes", "more CPU", "less CPU", "as much CPU", "takes"},
    {"rpcs", "sends", "more calls", "fewer calls", "as many calls", "sends"},
    {"rpcs_per_op", "sends", "more calls", "fewer calls", "as many calls", "sends"},
    {"p50_us", "takes", "longer", "less time", "as long", "takes"},
    {"p99_us", "take", "longer", "less time", "as long", "take", "", "slowest 1 %"},
    {"p999_us", "take", "longer", "less time", "as long", "take", "", "slowest 0.1 %"},
    {"instructions_per_gib", "executes", "more instructions", "fewer instructions", "as many instructions",
     "executes"},
    {"syscalls_per_gib", "makes", "more system calls", "fewer system calls", "as many system calls", "makes"},
    {"payload_calls_per_gib", "makes", "more system calls that move data",
     "fewer system calls that move data", "as many system calls that move data", "makes"},
    {"resident_mib", "takes", "more memory", "less memory", "as much memory", "takes"},
    {"bytes_per_inode", "takes", "more memory", "less memory", "as much memory", "takes"},
};
constexpr Words kOther = {"", "is", "higher", "lower", "as high", "reaches"};

const Words& words_of(const Quantity& quantity) {
  for (const Words& words : kWords) {
    if (words.key == quantity.key) return words;
  }
  return kOther;
}

constexpr double kTwice = 2, kEqual = 0.0005;

// The phrase begins with a capital letter if it begins the sentence and is not a name.
std::string subject(const Words& words, const std::string& who, bool first) {
  if (words.part.empty()) return in_sentence(who);
  return fmt::format("{} {} of {}", first ? "The" : "the", words.part, in_sentence(who));
}

std::string object(const Words& words, const std::string& who) {
  return (words.part.empty() ? "" : "those of ") + in_sentence(who);
}

// The digits of a percentage. Values below 100 % are not rounded up to 100 %.
std::string digits(double percent) {
  if (percent < 0.05) return "0";
  return fmt::format(fmt::runtime(percent < 0.95 || (percent > 99 && percent < 100) ? "{:.1f}" : "{:.0f}"),
                     percent);
}

double percent(double ratio) {
  return std::abs(ratio - 1) * 100;
}

std::string times(double ratio) {
  return fmt::format(fmt::runtime(ratio < 9.95 ? "{:.1f}" : "{:.0f}"), ratio);
}

// "12 %", "3.4 times as fast".
std::string amount(const Words& words, double ratio) {
  return ratio >= kTwice ? fmt::format("{} times {}", times(ratio), words.as) : digits(percent(ratio)) + " %";
}

// "9 % slower", "as fast", "3.4 times as fast".
std::string amount_with_side(const Words& words, double ratio) {
  if (ratio >= kTwice) return amount(words, ratio);
  if (std::abs(ratio - 1) < kEqual) return std::string(words.as);
  return fmt::format("{} {}", amount(words, ratio), ratio > 1 ? words.more : words.less);
}

// "range 10 to 15 %": the range that contains the true value. Empty if both ends would be shown as the same
// number.
std::string range(const Words& words, const Ratio& ratio) {
  if (ratio.exact || !ratio.decides()) return "";
  const double low = ratio.median > 1 ? ratio.low : ratio.high,
               high = ratio.median > 1 ? ratio.high : ratio.low;
  if (amount(words, low) == amount(words, high)) return "";
  if (low >= kTwice) return fmt::format("range {} to {} times", times(low), times(high));
  if (high < kTwice) return fmt::format("range {} to {} %", digits(percent(low)), digits(percent(high)));
  return fmt::format("range {} to {}", amount(words, low), amount(words, high));
}

std::string in_brackets(const std::string& text) {
  return text.empty() ? "" : fmt::format(" ({})", text);
}

std::string join(const std::string& one, const std::string& other) {
  return one.empty() || other.empty() ? one + other : one + ", " + other;
}

// Places with their preposition, " for read and stat". Empty for the pair as a whole.
std::string placed(const std::string& before, const std::vector<std::string>& places) {
  const std::string list = listed(places);
  return list.empty() ? ""
                      : fmt::format("{}{}{}", list.starts_with(" (") ? "" : " ",
                                    list.starts_with(" (") ? "" : before, list);
}

enum class Group { kMore, kLess, kSame, kSpread };
constexpr Group kGroups[] = {Group::kMore, Group::kLess, Group::kSame, Group::kSpread};
using Part = std::vector<const Compared*>;

Group group_of(const Ratio& ratio) {
  const auto equal = [](double each) { return std::abs(each - 1) < kEqual; };
  if (equal(ratio.median) && (ratio.exact || (equal(ratio.low) && equal(ratio.high)))) return Group::kSame;
  if (!ratio.exact && standing(ratio, 1) == Standing::kSpread) return Group::kSpread;
  return ratio.median > 1 ? Group::kMore : Group::kLess;
}

// The sentence about one group. Only the first sentence names the pair.
class Clause {
 public:
  Clause(const Words& words, const Pair& pair, const std::string& before, bool named, bool begins)
      : words_(words), before_(before), named_(named), begins_(begins) {
    who_ = named ? (words.part.empty() ? "It" : "They") : subject(words, pair.of, begins);
    over_ = named ? "" : object(words, pair.over);
    between_ = named ? "" : fmt::format(" between {} and {}", subject(words, pair.of, false), over_);
  }

  std::string of(Group group, const Part& part) const {
    switch (group) {
      case Group::kSpread: return unclear(part);
      case Group::kSame:
        return compared(words_.as, "as", places(part, [](const Ratio&) { return std::string(); }));
      case Group::kMore:
      case Group::kLess: break;
    }
    const std::string_view side = group == Group::kMore ? words_.more : words_.less;
    const Ratio& ratio = part.front()->ratio;
    if (part.size() > 1)
      return compared(side, "than", places(part, [this](const Ratio& each) {
                        return join(amount(words_, each.median), range(words_, each));
                      }));
    const std::string tail = places(part, [this](const Ratio& each) { return range(words_, each); });
    return compared(amount_with_side(words_, ratio.median), ratio.median >= kTwice ? "as" : "than", tail);
  }

 private:
  std::string compared(std::string_view how, std::string_view link, const std::string& tail) const {
    return fmt::format("{} {} {}{}{}", who_, words_.verb, how,
                       over_.empty() ? "" : fmt::format(" {} {}", link, over_), tail);
  }

  std::string unclear(const Part& part) const {
    return fmt::format("{} is no clear difference{}{}", begins_ ? "There" : "there", between_,
                       places(part, [this](const Ratio& each) {
                         return fmt::format("{} to {}", amount_with_side(words_, each.low),
                                            amount_with_side(words_, each.high));
                       }));
  }

  template <class Say>
  std::string places(const Part& part, Say say) const {
    std::vector<std::string> out;
    for (const Compared* one : part) out.push_back(one->place + in_brackets(say(one->ratio)));
    return placed(before_, out);
  }

  const Words& words_;
  const std::string& before_;
  const bool named_, begins_;
  std::string who_, over_, between_;
};

}  // namespace

std::string in_sentence(const std::string& name) {
  return name.find(',') == std::string::npos ? name : "“" + name + "”";
}

std::string listed(const std::vector<std::string>& parts) {
  std::string out;
  for (size_t i = 0; i < parts.size(); ++i)
    out += (i == 0 ? "" : i + 1 == parts.size() ? " and " : ", ") + parts[i];
  return out;
}

std::string compared_sentences(const Quantity& quantity, const Pair& pair, const std::string& before,
                               const std::vector<Compared>& all, const std::string& lead) {
  const Words& words = words_of(quantity);
  std::string out;
  for (const bool decided : {true, false}) {
    size_t rounds = 0;
    Part parts[std::size(kGroups)];
    for (const Compared& one : all) {
      if (one.ratio.decides() != decided) continue;
      parts[static_cast<size_t>(group_of(one.ratio))].push_back(&one);
      rounds = std::max(rounds, one.ratio.pairs);
    }
    std::string first = lead;
    if (!decided)
      first = fmt::format("{} too few to be sure; so far {}",
                          rounds == 1 ? "One round is" : fmt::format("{} rounds are", rounds), lead);
    bool named = false;
    for (const Group group : kGroups) {
      const Part& part = parts[static_cast<size_t>(group)];
      if (part.empty()) continue;
      out += fmt::format("{}{}{}.", out.empty() ? "" : " ", named ? "" : first,
                         Clause(words, pair, before, named, named || first.empty()).of(group, part));
      named = true;
    }
  }
  return out;
}

std::string reached_sentence(const Quantity& quantity, const std::string& who, const std::string& before,
                             const std::vector<Reached>& all) {
  const Words& words = words_of(quantity);
  std::vector<std::string> parts;
  for (const Reached& one : all)
    parts.push_back(fmt::format("{}{} {}{}", show_value(quantity, one.value, true),
                                parts.empty() ? words.of : "", before, one.place));
  return fmt::format("{} {} {}.", subject(words, who, true), words.reaches, listed(parts));
}

std::string map_sentence(const Quantity& quantity, const Pair& pair, const MapCount& count) {
  const Words& words = words_of(quantity);
  std::string out = fmt::format("{} {} {} in {} of {} combinations, {} in {}", subject(words, pair.of, true),
                                words.verb, quantity.better == Better::kLower ? words.less : words.more,
                                count.of, count.all, object(words, pair.over), count.over);
  if (count.spread != 0) out += fmt::format("; in {} there is no clear difference", count.spread);
  if (count.too_few != 0) out += fmt::format("; in {} there were too few rounds to tell", count.too_few);
  return out + ".";
}

}  // namespace nfsrdma::cli::bench
