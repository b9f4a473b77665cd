// SPDX-License-Identifier: Apache-2.0
#include "cli/bench/findings.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "cli/bench/wording.h"

namespace nfsrdma::cli::bench {
namespace {

bool matches(const Measurement& m, const Plot& plot) {
  if (std::find(plot.metrics.begin(), plot.metrics.end(), m.metric) == plot.metrics.end()) return false;
  if (!m.values.contains(plot.y)) return false;
  return std::all_of(plot.where.begin(), plot.where.end(), [&](const auto& wanted) {
    const auto found = m.at.find(wanted.first);
    return found != m.at.end() && found->second == wanted.second;
  });
}

// The divisor of the target's ratio, for each round: the value of its reference (Target::over), or the
// combined value of several references, without the rounds that one of them lacks. If there is no reference,
// the divisor is 1 in every round.
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
  // A value equal to the bound meets it, for a lower and for an upper bound.
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

constexpr const char* kForMetric = "for ";

// The preposition before a point: "with 4 KiB", but "one at a time".
const char* before_point(const Quantity& quantity) {
  return quantity.key == "depth" ? "" : "with ";
}

// Keeps the first and last item, which show the trend. The plot and its table have the others.
template <class T>
void leave_ends(std::vector<T>& list) {
  if (list.size() > 2) list.erase(list.begin() + 1, list.end() - 1);
}

std::vector<std::string> say_bars(const Document& document, const Plot& plot) {
  std::vector<std::string> out;
  const Quantity& y = *find_quantity(plot.y);
  for (const Pair& pair : plot.compare) {
    std::vector<Compared> all;
    for (const std::string& metric : plot.metrics) {
      if (const auto ratio = compare(document, pair, metric, plot.where, plot.y))
        all.push_back({in_sentence(metric), *ratio});
    }
    if (!all.empty()) out.push_back(compared_sentences(y, pair, kForMetric, all));
  }
  if (!plot.compare.empty()) return out;
  for (const Contender* contender : drawn(document, plot)) {
    std::vector<Reached> all;
    for (const std::string& metric : plot.metrics) {
      if (const auto spread = spread_of(rounds_of(document, metric, contender->name, plot.where, plot.y)))
        all.push_back({in_sentence(metric), spread->median});
    }
    if (!all.empty()) out.push_back(reached_sentence(y, contender->name, kForMetric, all));
  }
  return out;
}

std::vector<std::string> say_lines(const Document& document, const Plot& plot) {
  std::vector<std::string> out;
  const Quantity &x = *find_quantity(plot.x), &y = *find_quantity(plot.y);
  const std::string& metric = plot.metrics.front();
  for (const Pair& pair : plot.compare) {
    std::vector<Compared> all;
    for (const double value : values_along(document, plot, plot.x)) {
      if (const auto ratio = compare(document, pair, metric, with(plot.where, plot.x, value), plot.y))
        all.push_back({show_point(x, value), *ratio});
    }
    leave_ends(all);
    if (!all.empty()) out.push_back(compared_sentences(y, pair, before_point(x), all));
  }
  if (!plot.compare.empty()) return out;
  for (const Contender* contender : drawn(document, plot)) {
    std::vector<Reached> all;
    for (const double value : values_along(document, plot, plot.x)) {
      const At at = with(plot.where, plot.x, value);
      if (const auto spread = spread_of(rounds_of(document, metric, contender->name, at, plot.y)))
        all.push_back({show_point(x, value), spread->median});
    }
    leave_ends(all);
    if (!all.empty()) out.push_back(reached_sentence(y, contender->name, before_point(x), all));
  }
  return out;
}

struct Cell {
  At at;
  double median = 0;
};

// The cell with a contender's best median.
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
  std::vector<std::string> out;
  const Quantity &x = *find_quantity(plot.x), &y = *find_quantity(plot.y),
                 &along = *find_quantity(plot.along);
  for (const Contender* contender : drawn(document, plot)) {
    const auto best = best_cell(document, plot, contender->name);
    if (!best) continue;
    const std::string where = fmt::format("at its best, with {} and {}", show_point(x, best->at.at(plot.x)),
                                          show_point(along, best->at.at(plot.along)));
    out.push_back(reached_sentence(y, contender->name, "", {{where, best->median}}));
  }
  for (const Pair& pair : plot.compare) {
    const auto of = best_cell(document, plot, pair.of), over = best_cell(document, plot, pair.over);
    if (!of || !over) continue;
    const std::string& metric = plot.metrics.front();
    const auto ratio = ratio_of(rounds_of(document, metric, pair.of, of->at, plot.y),
                                rounds_of(document, metric, pair.over, over->at, plot.y));
    if (ratio) out.push_back(compared_sentences(y, pair, "", {{"", *ratio}}, "At their best, "));
  }
  return out;
}

std::vector<std::string> say_map(const Document& document, const Plot& plot) {
  const Pair& pair = plot.compare.front();
  const Quantity& y = *find_quantity(plot.y);
  const bool higher = y.better != Better::kLower;
  MapCount count;
  for (const double along : values_along(document, plot, plot.along)) {
    for (const double x : values_along(document, plot, plot.x)) {
      const At at = with(with(plot.where, plot.along, along), plot.x, x);
      const auto ratio = compare(document, pair, plot.metrics.front(), at, plot.y);
      if (!ratio) continue;
      ++count.all;
      switch (standing(*ratio, 1)) {
        case Standing::kAbove: ++(higher ? count.of : count.over); break;
        case Standing::kBelow: ++(higher ? count.over : count.of); break;
        case Standing::kSpread: ++count.spread; break;
        case Standing::kTooFew: ++count.too_few; break;
      }
    }
  }
  if (count.all == 0) return {};
  return {map_sentence(y, pair, count)};
}

std::string lower(std::string_view label) {
  std::string out(label);
  out[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(out[0])));
  return out;
}

// The quotient y / x in each round.
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
    const std::string lead = fmt::format("For the same {}, ", lower(find_quantity(plot.x)->label));
    if (!all.empty())
      out.push_back(compared_sentences(*find_quantity(plot.y), pair, before_point(*find_quantity(plot.along)),
                                       all, lead));
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
