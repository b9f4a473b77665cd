// SPDX-License-Identifier: Apache-2.0
#include "cli/bench/findings.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

namespace nfsrdma::cli::bench {
namespace {

At with(At at, const std::string& quantity, double value) {
  at[quantity] = value;
  return at;
}

bool matches(const Measurement& m, const Plot& plot) {
  if (std::find(plot.metrics.begin(), plot.metrics.end(), m.metric) == plot.metrics.end()) return false;
  if (!m.values.contains(plot.y)) return false;
  return std::all_of(plot.where.begin(), plot.where.end(), [&](const auto& wanted) {
    const auto found = m.at.find(wanted.first);
    return found != m.at.end() && found->second == wanted.second;
  });
}

// The reference's rounds, and for several those of them together, where all have one. Ones, for no reference.
Rounds combined(const Document& document, const Target& target) {
  Rounds total;
  if (target.over.empty()) {
    for (const auto& [round, value] :
         rounds_of(document, target.of.metric, target.of.contender, target.of.at, target.key))
      total[round] = 1;
  }
  bool first = true;
  for (const Reference& over : target.over) {
    const Rounds rounds = rounds_of(document, over.metric, over.contender, over.at, target.key);
    Rounds next;
    for (const auto& [round, value] : rounds) {
      const auto before = total.find(round);
      if (!first && before == total.end()) continue;
      if (target.combine == Combine::kSum) {
        next[round] = value + (first ? 0 : before->second);
      } else if (value > 0) {
        next[round] = first ? value : 1 / (1 / value + 1 / before->second);
      }
    }
    total = std::move(next);
    first = false;
  }
  return total;
}

Judgement judge_one(const Document& document, const Target& target) {
  const Measurement* of = document.find(target.of.metric, target.of.contender, target.of.at);
  if (of == nullptr) return {&target, std::nullopt, Verdict::kAbsent};
  const auto ratio =
      ratio_of(rounds_of(document, target.of.metric, target.of.contender, target.of.at, target.key),
               combined(document, target), of->exact);
  if (!ratio) return {&target, std::nullopt, Verdict::kAbsent};
  if (!target.at_least && !target.at_most) return {&target, ratio, Verdict::kShown};
  // Who stands exactly at the bound has met it, whichever side it is on.
  const double bound = target.at_least ? *target.at_least : *target.at_most;
  if (!ratio->decides()) return {&target, ratio, Verdict::kUndecided};
  const bool surely = target.at_least ? ratio->low >= bound : ratio->high <= bound;
  const bool surely_not = target.at_least ? ratio->high < bound : ratio->low > bound;
  return {&target, ratio, surely ? Verdict::kMet : surely_not ? Verdict::kMissed : Verdict::kUndecided};
}

std::string rounds(size_t count) {
  return count == 1 ? "one round" : fmt::format("{} rounds", count);
}

std::string show_number(double value) {
  return fmt::format(fmt::runtime(value >= 100   ? "{:.0f}"
                                  : value >= 10  ? "{:.1f}"
                                  : value >= 0.1 ? "{:.2f}"
                                                 : "{:.3f}"),
                     value);
}

std::string sentence(std::string text) {
  return text + ".";
}

struct Compared {
  std::string where;
  Ratio ratio;
};

// "LEAD: read 1.18 (1.10 … 1.25), stat 0.90 (0.85 … 0.94); the spread swallows the difference for write 1.02
// (0.91 … 1.10)."
std::string say(const std::string& lead, const std::vector<Compared>& all) {
  std::vector<std::string> decided, swallowed, undecided, clauses;
  size_t pairs = 0;
  for (const auto& [where, ratio] : all) {
    const Standing stands = ratio.exact ? Standing::kAbove : standing(ratio, 1);
    auto& list = stands == Standing::kSpread ? swallowed : stands == Standing::kTooFew ? undecided : decided;
    list.push_back((where.empty() ? "" : where + " ") +
                   (stands == Standing::kTooFew ? show_number(ratio.median) : show_ratio(ratio)));
    if (stands == Standing::kTooFew) pairs = std::max(pairs, ratio.pairs);
  }
  if (!decided.empty()) clauses.push_back(fmt::format("{}", fmt::join(decided, ", ")));
  if (!swallowed.empty())
    clauses.push_back(fmt::format("the spread swallows the difference for {}", fmt::join(swallowed, ", ")));
  if (!undecided.empty())
    clauses.push_back(fmt::format("{}, too few to decide: {}", rounds(pairs), fmt::join(undecided, ", ")));
  return sentence(fmt::format("{}: {}", lead, fmt::join(clauses, "; ")));
}

std::string lead(const Plot& plot, const Pair& pair) {
  return fmt::format("{} of {}, that of {} being 1", find_quantity(plot.y)->label, pair.of, pair.over);
}

// The ends say what happens in between; the plot and its table have the rest.
template <class T>
void leave_ends(std::vector<T>& list) {
  if (list.size() > 2) list.erase(list.begin() + 1, list.end() - 1);
}

std::vector<std::string> say_bars(const Document& document, const Plot& plot) {
  std::vector<std::string> out;
  for (const Pair& pair : plot.compare) {
    std::vector<Compared> all;
    for (const std::string& metric : plot.metrics) {
      if (const auto ratio = compare(document, pair, metric, plot.where, plot.y))
        all.push_back({metric, *ratio});
    }
    if (!all.empty()) out.push_back(say(lead(plot, pair), all));
  }
  if (!plot.compare.empty()) return out;
  for (const Contender* contender : drawn(document, plot)) {
    std::vector<std::string> parts;
    for (const std::string& metric : plot.metrics) {
      if (const auto spread = spread_of(rounds_of(document, metric, contender->name, plot.where, plot.y)))
        parts.push_back(
            fmt::format("{} {}", metric, show_value(*find_quantity(plot.y), spread->median, true)));
    }
    out.push_back(sentence(fmt::format("{}: {}", contender->name, fmt::join(parts, ", "))));
  }
  return out;
}

std::vector<std::string> say_lines(const Document& document, const Plot& plot) {
  std::vector<std::string> out;
  const Quantity& x = *find_quantity(plot.x);
  for (const Pair& pair : plot.compare) {
    std::vector<Compared> all;
    for (const double value : values_along(document, plot, plot.x)) {
      if (const auto ratio =
              compare(document, pair, plot.metrics.front(), with(plot.where, plot.x, value), plot.y))
        all.push_back({show_point(x, value), *ratio});
    }
    leave_ends(all);
    if (!all.empty()) out.push_back(say(lead(plot, pair), all));
  }
  if (!plot.compare.empty()) return out;
  for (const Contender* contender : drawn(document, plot)) {
    std::vector<std::string> parts;
    for (const double value : values_along(document, plot, plot.x)) {
      const auto spread = spread_of(rounds_of(document, plot.metrics.front(), contender->name,
                                              with(plot.where, plot.x, value), plot.y));
      if (spread)
        parts.push_back(fmt::format("{} at {}", show_value(*find_quantity(plot.y), spread->median, true),
                                    show_point(x, value)));
    }
    leave_ends(parts);
    if (!parts.empty())
      out.push_back(sentence(fmt::format("{}: {}", contender->name, fmt::join(parts, ", "))));
  }
  return out;
}

struct Cell {
  At at;
  double median = 0;
};

// The best of a contender's cells, by its median.
std::optional<Cell> best_cell(const Document& document, const Plot& plot, const std::string& contender) {
  const bool higher = find_quantity(plot.y)->better != Better::kLower;
  std::optional<Cell> best;
  for (const double along : values_along(document, plot, plot.along)) {
    for (const double x : values_along(document, plot, plot.x)) {
      const At at = with(with(plot.where, plot.along, along), plot.x, x);
      const auto spread = spread_of(rounds_of(document, plot.metrics.front(), contender, at, plot.y));
      if (spread && (!best || (higher ? spread->median > best->median : spread->median < best->median)))
        best = Cell{at, spread->median};
    }
  }
  return best;
}

std::vector<std::string> say_grid(const Document& document, const Plot& plot) {
  std::vector<std::string> out, peaks;
  for (const Contender* contender : drawn(document, plot)) {
    const auto best = best_cell(document, plot, contender->name);
    if (!best) continue;
    peaks.push_back(fmt::format("{} {} ({}, {})", contender->name,
                                show_value(*find_quantity(plot.y), best->median, true),
                                show_point(*find_quantity(plot.x), best->at.at(plot.x)),
                                show_point(*find_quantity(plot.along), best->at.at(plot.along))));
  }
  if (!peaks.empty()) out.push_back(sentence(fmt::format("At its best: {}", fmt::join(peaks, "; "))));
  for (const Pair& pair : plot.compare) {
    const auto of = best_cell(document, plot, pair.of), over = best_cell(document, plot, pair.over);
    if (!of || !over) continue;
    const std::string& metric = plot.metrics.front();
    const auto ratio = ratio_of(rounds_of(document, metric, pair.of, of->at, plot.y),
                                rounds_of(document, metric, pair.over, over->at, plot.y));
    if (ratio)
      out.push_back(
          say(fmt::format("The best of {}, the best of {} being 1", pair.of, pair.over), {{"", *ratio}}));
  }
  return out;
}

// How many cells of a map are above, below, within the spread, and undecidable.
std::vector<std::string> say_map(const Document& document, const Plot& plot) {
  const Pair& pair = plot.compare.front();
  std::map<Standing, size_t> count;
  size_t all = 0;
  for (const double along : values_along(document, plot, plot.along)) {
    for (const double x : values_along(document, plot, plot.x)) {
      const At at = with(with(plot.where, plot.along, along), plot.x, x);
      const auto ratio = compare(document, pair, plot.metrics.front(), at, plot.y);
      if (!ratio) continue;
      ++count[standing(*ratio, 1)];
      ++all;
    }
  }
  if (all == 0) return {};
  const bool higher = find_quantity(plot.y)->better != Better::kLower;
  std::string text = fmt::format("Of {} combinations {} is the better in {}, {} in {}", all, pair.of,
                                 count[higher ? Standing::kAbove : Standing::kBelow], pair.over,
                                 count[higher ? Standing::kBelow : Standing::kAbove]);
  if (count[Standing::kSpread] != 0)
    text += fmt::format("; in {} the spread swallows the difference", count[Standing::kSpread]);
  if (count[Standing::kTooFew] != 0)
    text += fmt::format("; in {} there were too few repeats to decide", count[Standing::kTooFew]);
  return {sentence(text)};
}

// y per x of each round.
Rounds per(const Rounds& y, const Rounds& x) {
  Rounds out;
  for (const auto& [round, value] : y) {
    const auto found = x.find(round);
    if (found != x.end() && found->second > 0) out[round] = value / found->second;
  }
  return out;
}

std::vector<std::string> say_cloud(const Document& document, const Plot& plot) {
  std::vector<std::string> out;
  const std::string& metric = plot.metrics.front();
  for (const Pair& pair : plot.compare) {
    std::vector<Compared> all;
    for (const double value : values_along(document, plot, plot.along)) {
      const At at = with(plot.where, plot.along, value);
      const auto cost = [&](const std::string& who) {
        return per(rounds_of(document, metric, who, at, plot.y),
                   rounds_of(document, metric, who, at, plot.x));
      };
      if (const auto ratio = ratio_of(cost(pair.of), cost(pair.over)))
        all.push_back({show_point(*find_quantity(plot.along), value), *ratio});
    }
    leave_ends(all);
    if (!all.empty())
      out.push_back(
          say(fmt::format("CPU of {} for the same throughput, that of {} being 1", pair.of, pair.over), all));
  }
  return out;
}

}  // namespace

const char* verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::kMet: return "met";
    case Verdict::kMissed: return "MISSED";
    case Verdict::kUndecided: return "undecided";
    case Verdict::kShown: return "shown";
    case Verdict::kAbsent: break;
  }
  return "not measured";
}

std::vector<Judgement> judge(const Document& document) {
  std::vector<Judgement> out;
  for (const Target& target : document.targets) out.push_back(judge_one(document, target));
  return out;
}

std::string show_ratio(const Ratio& ratio) {
  if (ratio.exact) return show_number(ratio.median);
  if (ratio.pairs == 1) return fmt::format("{} ({})", show_number(ratio.median), rounds(1));
  return fmt::format("{} ({} … {})", show_number(ratio.median), show_number(ratio.low),
                     show_number(ratio.high));
}

Rounds rounds_of(const Document& document, const std::string& metric, const std::string& contender,
                 const At& at, const std::string& key) {
  const Measurement* m = document.find(metric, contender, at);
  if (m == nullptr) return {};
  const auto found = m->values.find(key);
  return found == m->values.end() ? Rounds() : found->second;
}

std::optional<Ratio> compare(const Document& document, const Pair& pair, const std::string& metric,
                             const At& at, const std::string& key) {
  const Measurement* of = document.find(metric, pair.of, at);
  return ratio_of(rounds_of(document, metric, pair.of, at, key),
                  rounds_of(document, metric, pair.over, at, key), of != nullptr && of->exact);
}

std::vector<const Contender*> drawn(const Document& document, const Plot& plot) {
  std::set<std::string> measured;
  for (const Measurement& m : document.measurements) {
    if (matches(m, plot)) measured.insert(m.contender);
  }
  std::vector<const Contender*> out;
  for (const Contender& contender : document.contenders) {
    const bool wanted = plot.contenders.empty() || std::find(plot.contenders.begin(), plot.contenders.end(),
                                                             contender.name) != plot.contenders.end();
    if (wanted && measured.contains(contender.name)) out.push_back(&contender);
  }
  // Ours first, ceilings last.
  std::stable_sort(out.begin(), out.end(),
                   [](const Contender* a, const Contender* b) { return a->role < b->role; });
  return out;
}

std::vector<double> values_along(const Document& document, const Plot& plot, const std::string& quantity) {
  std::set<double> values;
  for (const Measurement& m : document.measurements) {
    const auto found = m.at.find(quantity);
    if (found != m.at.end() && matches(m, plot)) values.insert(found->second);
  }
  return {values.begin(), values.end()};
}

std::vector<std::string> findings(const Document& document, const Plot& plot) {
  if (drawn(document, plot).empty()) return {};
  switch (plot.kind) {
    case PlotKind::kBars: return say_bars(document, plot);
    case PlotKind::kLines: return say_lines(document, plot);
    case PlotKind::kGrid: return say_grid(document, plot);
    case PlotKind::kCloud: return say_cloud(document, plot);
    case PlotKind::kMap: break;
  }
  return say_map(document, plot);
}

}  // namespace nfsrdma::cli::bench
