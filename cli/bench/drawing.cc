// SPDX-License-Identifier: Apache-2.0
#include "cli/bench/drawing.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "cli/bench/findings.h"

namespace nfsrdma::cli::bench {
namespace {

const char* role_name(Role role) {
  return role == Role::kOurs ? "ours" : role == Role::kPeer ? "peer" : "ceiling";
}

const char* better_name(Better better) {
  return better == Better::kHigher ? "higher" : better == Better::kLower ? "lower" : "";
}

const char* standing_name(Standing standing) {
  switch (standing) {
    case Standing::kAbove: return "above";
    case Standing::kBelow: return "below";
    case Standing::kSpread: return "spread";
    case Standing::kTooFew: break;
  }
  return "few";
}

Json axis(const std::string& key) {
  const Quantity& quantity = *find_quantity(key);
  return {{"label", quantity.label},
          {"unit", quantity.unit},
          {"better", better_name(quantity.better)},
          {"log", quantity.logarithmic}};
}

Json point(const Quantity& quantity, const Spread& spread) {
  return {{"v", spread.median},
          {"low", spread.low},
          {"high", spread.high},
          {"n", spread.count},
          {"shown", show_value(quantity, spread.median, false)},
          {"shown_low", show_value(quantity, spread.low, false)},
          {"shown_high", show_value(quantity, spread.high, false)}};
}

Json tick(const Quantity& quantity, double value) {
  return {{"v", value}, {"shown", show_value(quantity, value, false)}};
}

Json bars(const Document& document, const Plot& plot) {
  const Quantity& y = *find_quantity(plot.y);
  Json groups = Json::array();
  for (const std::string& metric : plot.metrics) {
    Json rows = Json::array();
    for (const Contender* contender : drawn(document, plot)) {
      const auto spread = spread_of(rounds_of(document, metric, contender->name, plot.where, plot.y));
      if (!spread) continue;
      Json row = point(y, *spread);
      row["name"] = contender->name;
      row["role"] = role_name(contender->role);
      rows.push_back(std::move(row));
    }
    if (!rows.empty()) groups.push_back({{"name", metric}, {"rows", std::move(rows)}});
  }
  return {{"form", "bars"}, {"groups", std::move(groups)}};
}

// The points of `contender` over quantity `x`, with the other coordinates as in `at`.
Json series(const Document& document, const Plot& plot, const Contender& contender, const At& at,
            const std::string& name) {
  Json points = Json::array();
  const Quantity& x = *find_quantity(plot.x);
  for (const double value : values_along(document, plot, plot.x)) {
    const auto spread =
        spread_of(rounds_of(document, plot.metrics.front(), contender.name, with(at, plot.x, value), plot.y));
    if (!spread) continue;
    Json made = point(*find_quantity(plot.y), *spread);
    made["x"] = value;
    made["at"] = show_point(x, value);
    points.push_back(std::move(made));
  }
  return {{"name", name}, {"role", role_name(contender.role)}, {"points", std::move(points)}};
}

Json ticks(const Document& document, const Plot& plot) {
  Json out = Json::array();
  for (const double value : values_along(document, plot, plot.x))
    out.push_back(tick(*find_quantity(plot.x), value));
  return out;
}

Json lines(const Document& document, const Plot& plot) {
  Json all = Json::array();
  for (const Contender* contender : drawn(document, plot))
    all.push_back(series(document, plot, *contender, plot.where, contender->name));
  return {{"form", "lines"},
          {"panels", Json::array({{{"name", ""}, {"series", std::move(all)}}})},
          {"ticks", ticks(document, plot)}};
}

Json grid(const Document& document, const Plot& plot) {
  Json panels = Json::array();
  for (const Contender* contender : drawn(document, plot)) {
    Json all = Json::array();
    for (const double along : values_along(document, plot, plot.along)) {
      const Quantity& quantity = *find_quantity(plot.along);
      Json made = series(document, plot, *contender, with(plot.where, plot.along, along),
                         show_point(quantity, along));
      made["short"] = show_value(quantity, along, false);
      all.push_back(std::move(made));
    }
    panels.push_back({{"name", contender->name}, {"series", std::move(all)}});
  }
  return {{"form", "lines"},
          {"panels", std::move(panels)},
          {"ticks", ticks(document, plot)},
          {"ordered", true},
          {"along", axis(plot.along)}};
}

Json cloud(const Document& document, const Plot& plot) {
  Json all = Json::array();
  const std::string& metric = plot.metrics.front();
  for (const Contender* contender : drawn(document, plot)) {
    Json points = Json::array();
    for (const double along : values_along(document, plot, plot.along)) {
      const At at = with(plot.where, plot.along, along);
      const auto x = spread_of(rounds_of(document, metric, contender->name, at, plot.x));
      const auto y = spread_of(rounds_of(document, metric, contender->name, at, plot.y));
      if (!x || !y) continue;
      Json made = point(*find_quantity(plot.y), *y);
      made["x"] = x->median;
      made["x_low"] = x->low;
      made["x_high"] = x->high;
      made["at"] = fmt::format("{}, {}", show_point(*find_quantity(plot.along), along),
                               show_value(*find_quantity(plot.x), x->median, true));
      made["mark"] = show_value(*find_quantity(plot.along), along, false);
      points.push_back(std::move(made));
    }
    all.push_back(
        {{"name", contender->name}, {"role", role_name(contender->role)}, {"points", std::move(points)}});
  }
  return {{"form", "lines"}, {"panels", Json::array({{{"name", ""}, {"series", std::move(all)}}})}};
}

Json map(const Document& document, const Plot& plot) {
  const Pair& pair = plot.compare.front();
  Json columns = Json::array(), rows = Json::array(), cells = Json::array();
  const auto xs = values_along(document, plot, plot.x);
  for (const double x : xs) columns.push_back(show_value(*find_quantity(plot.x), x, false));
  for (const double along : values_along(document, plot, plot.along)) {
    rows.push_back(show_value(*find_quantity(plot.along), along, false));
    Json row = Json::array();
    for (const double x : xs) {
      const At at = with(with(plot.where, plot.along, along), plot.x, x);
      const auto ratio = compare(document, pair, plot.metrics.front(), at, plot.y);
      row.push_back(!ratio ? Json()
                           : Json{{"v", ratio->median},
                                  {"low", ratio->low},
                                  {"high", ratio->high},
                                  {"n", ratio->pairs},
                                  {"standing", standing_name(standing(*ratio, 1))}});
    }
    cells.push_back(std::move(row));
  }
  return {{"form", "map"},
          {"columns", std::move(columns)},
          {"rows", std::move(rows)},
          {"cells", std::move(cells)},
          {"of", pair.of},
          {"over", pair.over},
          {"along", axis(plot.along)}};
}

Json draw(const Document& document, const Plot& plot) {
  switch (plot.kind) {
    case PlotKind::kBars: return bars(document, plot);
    case PlotKind::kLines: return lines(document, plot);
    case PlotKind::kGrid: return grid(document, plot);
    case PlotKind::kCloud: return cloud(document, plot);
    case PlotKind::kMap: break;
  }
  return map(document, plot);
}

// The machine and the versions of a run. Items that older runs did not record are shown as "not recorded".
Json where(const Document& document) {
  Json out = Json::array();
  for (const char* name : {"host", "processor", "kernel", "program", "libfuse", "server"}) {
    const auto found = std::find_if(document.conditions.begin(), document.conditions.end(),
                                    [&](const auto& condition) { return condition.first == name; });
    out.push_back(Json::array({name, found == document.conditions.end() ? "not recorded" : found->second}));
  }
  return out;
}

Json target_of(const Judgement& judgement) {
  const Target& target = *judgement.target;
  Json out{
      {"what", target.what}, {"verdict", verdict_name(judgement.verdict)}, {"wanted", ""}, {"ratio", ""}};
  if (judgement.ratio) {
    out["ratio"] = show_ratio(*judgement.ratio);
    out["v"] = judgement.ratio->median;
    out["low"] = judgement.ratio->low;
    out["high"] = judgement.ratio->high;
  }
  if (target.at_least) out["wanted"] = fmt::format("at least {:g}", *target.at_least);
  if (target.at_most) out["wanted"] = fmt::format("at most {:g}", *target.at_most);
  if (target.at_least || target.at_most) {
    out["bound"] = target.at_least ? *target.at_least : *target.at_most;
    out["better"] = better_name(target.at_least ? Better::kHigher : Better::kLower);
  }
  return out;
}

}  // namespace

Json drawing_of(const Document& document) {
  Json out{{"title", document.title}, {"date", document.date}, {"where", where(document)}};
  for (const char* name : {"conditions", "notes", "contenders", "targets", "plots"})
    out[name] = Json::array();
  for (const auto& [name, value] : document.conditions)
    out["conditions"].push_back(Json::array({name, value}));
  for (const std::string& note : document.notes) out["notes"].push_back(note);
  std::set<std::string> seen;
  for (const Plot& plot : document.plots) {
    for (const Contender* contender : drawn(document, plot)) seen.insert(contender->name);
  }
  for (const Role role : {Role::kOurs, Role::kPeer, Role::kCeiling}) {
    for (const Contender& contender : document.contenders) {
      if (contender.role == role && seen.contains(contender.name))
        out["contenders"].push_back(
            {{"name", contender.name}, {"role", role_name(role)}, {"about", contender.about}});
    }
  }
  for (const Judgement& judgement : judge(document)) out["targets"].push_back(target_of(judgement));
  for (const Plot& plot : document.plots) {
    if (drawn(document, plot).empty()) continue;
    Json made = draw(document, plot);
    made["title"] = plot.title;
    made["text"] = plot.text;
    made["findings"] = findings(document, plot);
    made["y"] = axis(plot.y);
    if (!plot.x.empty()) made["x"] = axis(plot.x);
    out["plots"].push_back(std::move(made));
  }
  return out;
}

}  // namespace nfsrdma::cli::bench
