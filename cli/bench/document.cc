// SPDX-License-Identifier: Apache-2.0
#include "cli/bench/document.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <set>

#include "cli/bench/quantity.h"

namespace nfsrdma::cli::bench {
namespace {

template <class T>
struct Named {
  T value;
  const char* name;
};
// clang 14 deduces nothing for aggregates.
template <class T>
Named(T, const char*) -> Named<T>;
constexpr std::array kRoles{Named{Role::kOurs, "ours"}, Named{Role::kPeer, "peer"},
                            Named{Role::kCeiling, "ceiling"}};
constexpr std::array kKinds{Named{PlotKind::kBars, "bars"}, Named{PlotKind::kLines, "lines"},
                            Named{PlotKind::kGrid, "grid"}, Named{PlotKind::kCloud, "cloud"},
                            Named{PlotKind::kMap, "map"}};
constexpr std::array kCombinations{Named{Combine::kSum, "sum"}, Named{Combine::kSeries, "series"}};

template <class List, class T>
const char* name_of(const List& list, T value) {
  return std::find_if(list.begin(), list.end(), [&](const auto& entry) { return entry.value == value; })
      ->name;
}

// Thrown and caught only in this file.
struct Wrong {
  std::string text;
};

// An object of the document. Every member must be requested through the Reader; end() throws for unknown
// members.
class Reader {
 public:
  Reader(const Json& json, std::string where) : json_(json), where_(std::move(where)) {
    if (!json.is_object()) throw Wrong{where_ + " is not an object"};
  }

  const Json* optional(const char* name) {
    known_.insert(name);
    const auto found = json_.find(name);
    return found == json_.end() ? nullptr : &*found;
  }
  const Json& required(const char* name) {
    const Json* found = optional(name);
    if (found == nullptr) throw Wrong{fmt::format("{} has no \"{}\"", where_, name)};
    return *found;
  }

  std::string text(const char* name) { return as_text(required(name), name); }
  std::string text_or(const char* name, std::string otherwise) {
    const Json* found = optional(name);
    return found == nullptr ? otherwise : as_text(*found, name);
  }
  std::optional<double> number_or_none(const char* name) {
    const Json* found = optional(name);
    if (found == nullptr) return std::nullopt;
    return as_number(*found, name);
  }
  bool flag(const char* name) {
    const Json* found = optional(name);
    if (found == nullptr) return false;
    if (!found->is_boolean()) throw Wrong{fmt::format("{}: \"{}\" is neither true nor false", where_, name)};
    return found->get<bool>();
  }
  std::vector<std::string> texts(const char* name) {
    std::vector<std::string> out;
    each(name, [&](const Json& item) { out.push_back(as_text(item, name)); });
    return out;
  }
  // Calls `take` for each element of a list. The list may be missing.
  template <class Take>
  void each(const char* name, Take take) {
    const Json* found = optional(name);
    if (found == nullptr) return;
    if (!found->is_array()) throw Wrong{fmt::format("{}: \"{}\" is not a list", where_, name)};
    for (const Json& item : *found) take(item);
  }
  template <class List>
  auto choice(const char* name, const List& list, const char* otherwise = nullptr) {
    const std::string chosen = otherwise == nullptr ? text(name) : text_or(name, otherwise);
    for (const auto& entry : list) {
      if (entry.name == chosen) return entry.value;
    }
    throw Wrong{fmt::format("{}: \"{}\" is unknown: {}", where_, name, chosen)};
  }
  At at(const char* name) {
    At out;
    const Json* found = optional(name);
    if (found == nullptr) return out;
    if (!found->is_object()) throw Wrong{fmt::format("{}: \"{}\" is not an object", where_, name)};
    for (const auto& [key, value] : found->items()) out[quantity(key)] = as_number(value, key.c_str());
    return out;
  }
  std::string quantity(const std::string& key) const {
    if (find_quantity(key) == nullptr) throw Wrong{fmt::format("{}: there is no quantity {}", where_, key)};
    return key;
  }
  // Reads a member that names a quantity; empty if it is missing.
  std::string quantity_member(const char* name) {
    const std::string key = text_or(name, "");
    return key.empty() ? key : quantity(key);
  }
  void end() const {
    for (const auto& [name, value] : json_.items()) {
      if (!known_.contains(name)) throw Wrong{fmt::format("{} has an unknown \"{}\"", where_, name)};
    }
  }
  const std::string& where() const { return where_; }

 private:
  std::string as_text(const Json& json, const char* name) const {
    if (!json.is_string()) throw Wrong{fmt::format("{}: \"{}\" is not text", where_, name)};
    return json.get<std::string>();
  }
  double as_number(const Json& json, const char* name) const {
    if (!json.is_number()) throw Wrong{fmt::format("{}: \"{}\" is not a number", where_, name)};
    return json.get<double>();
  }

  const Json& json_;
  std::string where_;
  std::set<std::string> known_;
};

Measurement read_measurement(const Json& json, size_t index) {
  Reader in(json, fmt::format("measurement {}", index));
  Measurement out;
  out.metric = in.text("metric");
  out.contender = in.text("contender");
  out.at = in.at("at");
  out.exact = in.flag("exact");
  in.each("runs", [&](const Json& run) {
    if (!run.is_object() || !run.contains("round") || !run["round"].is_number_unsigned())
      throw Wrong{in.where() + ": a run has no \"round\""};
    const unsigned round = run["round"].get<unsigned>();
    for (const auto& [key, value] : run.items()) {
      if (key == "round") continue;
      if (!value.is_number()) throw Wrong{fmt::format("{}: \"{}\" is not a number", in.where(), key)};
      if (!out.values[in.quantity(key)].emplace(round, value.get<double>()).second)
        throw Wrong{fmt::format("{}: round {} is there twice", in.where(), round)};
    }
  });
  in.end();
  return out;
}

Pair read_pair(const Json& json, const std::string& where) {
  Reader in(json, where + ", compare");
  Pair out{in.text("of"), in.text("over")};
  in.end();
  return out;
}

Plot read_plot(const Json& json, size_t index) {
  Reader in(json, fmt::format("plot {}", index));
  Plot out;
  out.kind = in.choice("kind", kKinds);
  out.title = in.text("title");
  out.text = in.text_or("text", "");
  out.metrics = in.texts("metrics");
  out.x = in.quantity_member("x");
  out.y = in.quantity_member("y");
  out.along = in.quantity_member("along");
  out.where = in.at("where");
  out.contenders = in.texts("contenders");
  in.each("compare", [&](const Json& pair) { out.compare.push_back(read_pair(pair, in.where())); });
  in.end();
  const bool has_x = out.kind != PlotKind::kBars;
  const bool has_along = has_x && out.kind != PlotKind::kLines;
  if (out.metrics.empty() || (has_x && out.metrics.size() != 1))
    throw Wrong{in.where() + ": the number of metrics"};
  if (out.y.empty() || out.x.empty() == has_x || out.along.empty() == has_along)
    throw Wrong{in.where() + ": x, y and along are not those of its kind"};
  if (out.kind == PlotKind::kMap && out.compare.empty()) throw Wrong{in.where() + " compares nothing"};
  return out;
}

Reference read_reference(const Json& json, const std::string& where) {
  Reader in(json, where);
  Reference out;
  out.metric = in.text("metric");
  out.contender = in.text("contender");
  out.at = in.at("at");
  in.end();
  return out;
}

Target read_target(const Json& json, size_t index) {
  Reader in(json, fmt::format("target {}", index));
  Target out;
  out.what = in.text("what");
  out.key = in.quantity(in.text("key"));
  out.of = read_reference(in.required("of"), in.where() + ", of");
  in.each("over", [&](const Json& over) { out.over.push_back(read_reference(over, in.where() + ", over")); });
  out.combine = in.choice("combine", kCombinations, "sum");
  out.at_least = in.number_or_none("at_least");
  out.at_most = in.number_or_none("at_most");
  in.end();
  if (out.at_least && out.at_most) throw Wrong{in.where() + " has two bounds"};
  return out;
}

Document read_document(const Json& json) {
  Reader in(json, "the document");
  if (const std::string format = in.text("format"); format != kFormat)
    throw Wrong{fmt::format("its format is \"{}\", not \"{}\"", format, kFormat)};
  Document out;
  out.title = in.text("title");
  out.date = in.text("date");
  in.each("conditions", [&](const Json& item) {
    if (!item.is_array() || item.size() != 2 || !item[0].is_string() || !item[1].is_string())
      throw Wrong{"a condition is not a pair of texts"};
    out.conditions.emplace_back(item[0].get<std::string>(), item[1].get<std::string>());
  });
  out.notes = in.texts("notes");
  in.each("contenders", [&](const Json& item) {
    Reader contender(item, fmt::format("contender {}", out.contenders.size()));
    out.contenders.push_back(
        {contender.text("name"), contender.choice("role", kRoles), contender.text_or("about", "")});
    contender.end();
  });
  in.each("measurements", [&](const Json& item) {
    out.measurements.push_back(read_measurement(item, out.measurements.size()));
  });
  in.each("plots", [&](const Json& item) { out.plots.push_back(read_plot(item, out.plots.size())); });
  in.each("targets", [&](const Json& item) { out.targets.push_back(read_target(item, out.targets.size())); });
  in.end();
  return out;
}

// Throws if a named contender does not exist, or if a measurement is there twice. Measurements that plots and
// targets name may be missing; they are not drawn.
void check_names(const Document& document) {
  const auto check = [&](const std::string& name) {
    if (document.find_contender(name) == nullptr) throw Wrong{"there is no contender " + name};
  };
  std::set<std::tuple<std::string, std::string, At>> seen;
  for (const Measurement& m : document.measurements) {
    check(m.contender);
    if (!seen.emplace(m.metric, m.contender, m.at).second)
      throw Wrong{fmt::format("{} of {} is there twice", m.metric, m.contender)};
  }
  for (const Plot& plot : document.plots) {
    for (const std::string& name : plot.contenders) check(name);
    for (const Pair& pair : plot.compare) check(pair.of), check(pair.over);
  }
  for (const Target& target : document.targets) {
    check(target.of.contender);
    for (const Reference& over : target.over) check(over.contender);
  }
}

Json json_of(const Measurement& m) {
  std::map<unsigned, Json> rounds;
  for (const auto& [key, values] : m.values) {
    for (const auto& [round, value] : values) rounds[round][key] = value;
  }
  Json out{{"metric", m.metric}, {"contender", m.contender}, {"runs", Json::array()}};
  if (!m.at.empty()) out["at"] = m.at;
  if (m.exact) out["exact"] = true;
  for (auto& [round, run] : rounds) {
    run["round"] = round;
    out["runs"].push_back(std::move(run));
  }
  return out;
}

Json json_of(const Plot& plot) {
  Json out{
      {"kind", name_of(kKinds, plot.kind)}, {"title", plot.title}, {"metrics", plot.metrics}, {"y", plot.y}};
  if (!plot.text.empty()) out["text"] = plot.text;
  if (!plot.x.empty()) out["x"] = plot.x;
  if (!plot.along.empty()) out["along"] = plot.along;
  if (!plot.where.empty()) out["where"] = plot.where;
  if (!plot.contenders.empty()) out["contenders"] = plot.contenders;
  for (const Pair& pair : plot.compare) out["compare"].push_back({{"of", pair.of}, {"over", pair.over}});
  return out;
}

Json json_of(const Reference& reference) {
  Json out{{"metric", reference.metric}, {"contender", reference.contender}};
  if (!reference.at.empty()) out["at"] = reference.at;
  return out;
}

Json json_of(const Target& target) {
  Json out{{"what", target.what}, {"key", target.key}, {"of", json_of(target.of)}};
  for (const Reference& over : target.over) out["over"].push_back(json_of(over));
  if (target.combine != Combine::kSum) out["combine"] = name_of(kCombinations, target.combine);
  if (target.at_least) out["at_least"] = *target.at_least;
  if (target.at_most) out["at_most"] = *target.at_most;
  return out;
}

}  // namespace

const Measurement* Document::find(const std::string& metric, const std::string& contender,
                                  const At& at) const {
  const auto found = std::find_if(measurements.begin(), measurements.end(), [&](const Measurement& m) {
    return m.metric == metric && m.contender == contender && m.at == at;
  });
  return found == measurements.end() ? nullptr : &*found;
}

Measurement& Document::measurement(const std::string& metric, const std::string& contender, const At& at) {
  for (Measurement& m : measurements) {
    if (m.metric == metric && m.contender == contender && m.at == at) return m;
  }
  return measurements.emplace_back(Measurement{metric, contender, at, false, {}});
}

const Contender* Document::find_contender(const std::string& name) const {
  const auto found =
      std::find_if(contenders.begin(), contenders.end(), [&](const Contender& c) { return c.name == name; });
  return found == contenders.end() ? nullptr : &*found;
}

Json to_json(const Document& document) {
  Json out{{"format", kFormat}, {"title", document.title}, {"date", document.date}};
  for (const char* name : {"conditions", "notes", "contenders", "measurements", "plots", "targets"})
    out[name] = Json::array();
  for (const auto& [name, value] : document.conditions)
    out["conditions"].push_back(Json::array({name, value}));
  for (const std::string& note : document.notes) out["notes"].push_back(note);
  for (const Contender& c : document.contenders)
    out["contenders"].push_back({{"name", c.name}, {"role", name_of(kRoles, c.role)}, {"about", c.about}});
  for (const Measurement& m : document.measurements) out["measurements"].push_back(json_of(m));
  for (const Plot& plot : document.plots) out["plots"].push_back(json_of(plot));
  for (const Target& target : document.targets) out["targets"].push_back(json_of(target));
  return out;
}

Outcome<Document> document_from_text(const std::string& text) {
  const Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) return refuse(ToolExit::kFailed, "no JSON");
  try {
    Document document = read_document(json);
    check_names(document);
    return document;
  } catch (const Wrong& wrong) {
    return refuse(ToolExit::kFailed, "no results of a benchmark: " + wrong.text);
  }
}

}  // namespace nfsrdma::cli::bench
