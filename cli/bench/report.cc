// SPDX-License-Identifier: Apache-2.0
#include "cli/bench/report.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>

#include "cli/bench/drawing.h"
#include "cli/bench/findings.h"
#include "cli/bench/template.h"

namespace nfsrdma::cli::bench {
namespace {

constexpr std::string_view kDrawingPlace = "{{drawing}}";
constexpr std::string_view kDocumentPlace = "{{document}}";

std::string dumped(const Json& json, int indent = -1) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

// JSON that is safe inside a script element: "<" is escaped.
std::string for_script(const Json& json) {
  std::string out;
  for (const char c : dumped(json)) {
    if (c == '<') {
      out += "\\u003c";
    } else {
      out += c;
    }
  }
  return out;
}

std::string point_name(const At& at) {
  std::string out;
  for (const auto& [key, value] : at)
    out += (out.empty() ? "" : ", ") + show_point(*find_quantity(key), value);
  return out;
}

// The medians, lowest and highest values of one plot's y, one line for each measurement.
std::string rows_of(const Document& document, const Plot& plot) {
  const Quantity& y = *find_quantity(plot.y);
  std::string out;
  const auto row = [&](const std::string& metric, const At& at) {
    for (const Contender* contender : drawn(document, plot)) {
      const auto spread = spread_of(rounds_of(document, metric, contender->name, at, plot.y));
      if (!spread) continue;
      std::string where = point_name(at);
      if (plot.kind == PlotKind::kBars) where = metric + (where.empty() ? "" : ", " + where);
      out += fmt::format("  {:34} {:28}{:>10}{:>10}{:>10} {}\n", where, contender->name,
                         show_value(y, spread->median, false), show_value(y, spread->low, false),
                         show_value(y, spread->high, false), y.unit);
    }
  };
  if (plot.kind == PlotKind::kBars) {
    for (const std::string& metric : plot.metrics) row(metric, plot.where);
  } else {
    for (const double value : values_along(document, plot, plot.x)) {
      At at = plot.where;
      at[plot.x] = value;
      row(plot.metrics.front(), at);
    }
  }
  return out.empty()
             ? out
             : fmt::format("  {:34} {:28}{:>10}{:>10}{:>10}\n", "", "", "median", "lowest", "highest") + out;
}

// One table of medians for each contender: rows are values of `along`, columns are values of x.
std::string matrices_of(const Document& document, const Plot& plot) {
  std::string out;
  const auto xs = values_along(document, plot, plot.x);
  for (const Contender* contender : drawn(document, plot)) {
    out += fmt::format("  {:28}", contender->name);
    for (const double x : xs) out += fmt::format("{:>9}", show_value(*find_quantity(plot.x), x, false));
    out += '\n';
    for (const double along : values_along(document, plot, plot.along)) {
      out += fmt::format("  {:28}", show_point(*find_quantity(plot.along), along));
      for (const double x : xs) {
        At at = plot.where;
        at[plot.x] = x;
        at[plot.along] = along;
        const auto spread = spread_of(rounds_of(document, plot.metrics.front(), contender->name, at, plot.y));
        out += fmt::format("{:>9}", spread ? show_value(*find_quantity(plot.y), spread->median, false) : "");
      }
      out += '\n';
    }
  }
  return out;
}

std::string plot_text(const Document& document, const Plot& plot) {
  if (drawn(document, plot).empty()) return "";
  std::string out = fmt::format("{}\n", plot.title);
  for (const std::string& finding : findings(document, plot)) out += fmt::format("  {}\n", finding);
  if (plot.kind == PlotKind::kBars || plot.kind == PlotKind::kLines) out += rows_of(document, plot);
  if (plot.kind == PlotKind::kGrid) out += matrices_of(document, plot);
  return out + '\n';
}

std::string verdict_line(const Judgement& judgement) {
  const Target& target = *judgement.target;
  std::string out = fmt::format("{:13}{}", verdict_name(judgement.verdict), target.what);
  if (judgement.ratio) out += ": " + show_ratio(*judgement.ratio);
  if (target.at_least) out += fmt::format(", at least {:g}", *target.at_least);
  if (target.at_most) out += fmt::format(", at most {:g}", *target.at_most);
  return out + '\n';
}

}  // namespace

std::string text_report(const Document& document) {
  std::string out;
  for (const Plot& plot : document.plots) out += plot_text(document, plot);
  for (const Judgement& judgement : judge(document)) out += verdict_line(judgement);
  for (const std::string& note : document.notes) out += fmt::format("Note: {}\n", printable(note));
  return out;
}

std::string html_report(const Document& document) {
  const std::string_view page = kTemplate;
  const size_t drawing = page.find(kDrawingPlace);
  const size_t whole = page.find(kDocumentPlace, drawing);
  return fmt::format("{}{}{}{}{}", page.substr(0, drawing), for_script(drawing_of(document)),
                     page.substr(drawing + kDrawingPlace.size(), whole - drawing - kDrawingPlace.size()),
                     for_script(to_json(document)), page.substr(whole + kDocumentPlace.size()));
}

std::string json_text(const Document& document) {
  const Json json = to_json(document);
  std::string out = "{\n";
  for (const char* name : {"format", "title", "date"})
    out += fmt::format("\"{}\": {},\n", name, dumped(json[name]));
  for (const char* name : {"conditions", "notes", "contenders", "plots", "targets", "measurements"}) {
    out += fmt::format("\"{}\": [", name);
    const char* before = "\n";
    for (const Json& item : json[name]) {
      out += before + dumped(item);
      before = ",\n";
    }
    out += std::string("]") + (std::string_view(name) == "measurements" ? "\n" : ",\n");
  }
  return out + "}\n";
}

Outcome<Document> read_document(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  if (!in) return refuse(ToolExit::kFailed, fmt::format("{}: {}", file, std::strerror(errno)));
  auto document = document_from_text(text);
  if (!document) return refuse(ToolExit::kFailed, fmt::format("{}: {}", file, document.error().text));
  return document;
}

Outcome<> write_file(const std::string& file, const std::string& content) {
  struct stat st {};
  // A file that is not regular (/dev/stdout) is written in place, not replaced.
  const bool in_place = stat(file.c_str(), &st) == 0 && !S_ISREG(st.st_mode);
  const std::unique_ptr<char, decltype(&std::free)> real(realpath(file.c_str(), nullptr), &std::free);
  const std::string target = real ? real.get() : file;  // follows a symbolic link
  std::string made = in_place ? target : target + ".XXXXXX";
  const int fd = in_place ? open(made.c_str(), O_WRONLY | O_CLOEXEC) : mkostemp(made.data(), O_CLOEXEC);
  const auto failed = [&] {
    const int error = errno;
    if (!in_place && fd >= 0) std::remove(made.c_str());
    return refuse(ToolExit::kFailed, fmt::format("{}: {}", file, std::strerror(error)));
  };
  if (fd < 0) return failed();
  const mode_t mask = umask(0);
  umask(mask);
  std::FILE* out = fdopen(fd, "w");
  if (out == nullptr) {
    close(fd);
    return failed();
  }
  const bool written = (in_place || fchmod(fd, 0666 & ~mask) == 0) &&
                       std::fwrite(content.data(), 1, content.size(), out) == content.size();
  if (std::fclose(out) != 0 || !written) return failed();
  if (!in_place && std::rename(made.c_str(), target.c_str()) != 0) return failed();
  return {};
}

}  // namespace nfsrdma::cli::bench
