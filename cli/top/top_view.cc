// SPDX-License-Identifier: Apache-2.0
#include "cli/top/top_view.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>

namespace nfsrdma::cli::top {
namespace {

using Lines = std::vector<Line>;

// --- numbers

std::string short_number(double value, const char* const (&units)[5], double step) {
  size_t unit = 0;
  while (value >= step && unit + 1 < std::size(units)) {
    value /= step;
    ++unit;
  }
  // At most three digits. Values below the first step are integers.
  const int digits = unit == 0 || value >= 99.95 ? 0 : 1;
  return fmt::format("{:.{}f}{}", value, digits, units[unit]);
}

std::string bytes_text(double bytes) {
  static constexpr const char* kUnits[5] = {"B", "K", "M", "G", "T"};
  return short_number(bytes, kUnits, 1024);
}

std::string count_text(double count) {
  static constexpr const char* kUnits[5] = {"", "k", "M", "G", "T"};
  if (count > 0 && count < 9.95) return fmt::format("{:.1f}", count);
  return short_number(count, kUnits, 1000);
}

std::string time_text(double microseconds) {
  if (microseconds < 999.5) return fmt::format("{:.0f}us", microseconds);
  if (microseconds < 9'995) return fmt::format("{:.2f}ms", microseconds / 1e3);
  if (microseconds < 999'500) return fmt::format("{:.0f}ms", microseconds / 1e3);
  return fmt::format("{:.1f}s", microseconds / 1e6);
}

std::string percent_text(uint64_t part, uint64_t whole) {
  if (whole == 0) return "-";
  return fmt::format("{:.0f}%",
                     100.0 * static_cast<double>(std::min(part, whole)) / static_cast<double>(whole));
}

double rate(uint64_t n, double seconds) {
  return static_cast<double>(n) / std::max(seconds, 0.001);
}

// --- tables

// A table of cells. Columns are dropped by rank, the highest first, until the others fit.
struct Column {
  std::string_view head;
  size_t width;  // 0: the remaining width, left-aligned, at least kLeastText
  int rank;      // 0: never dropped
};
using Row = std::vector<std::string>;
constexpr size_t kLeastText = 8;

std::string pad(const std::string& text, size_t width, bool left) {
  const std::string fitting = cut(text, width);
  const std::string space(width - columns_of(fitting), ' ');
  return left ? fitting + space : space + fitting;
}

class Table {
 public:
  Table(std::vector<Column> columns, size_t width) : columns_(std::move(columns)), width_(width) {
    while (needed() > width_ && drop_least()) {
    }
  }

  std::string line(const Row& cells) const {
    std::string out;
    for (size_t i = 0; i < columns_.size(); ++i) {
      if (!dropped(i)) out += pad(cells[i], width_of(i), columns_[i].width == 0);
    }
    return out;
  }
  std::string head() const {
    Row cells;
    for (const Column& c : columns_) cells.emplace_back(c.head);
    return line(cells);
  }

 private:
  static constexpr int kDropped = -1;
  bool dropped(size_t i) const { return columns_[i].rank == kDropped; }
  size_t fixed() const {
    size_t sum = 0;
    for (const Column& c : columns_) sum += c.rank == kDropped ? 0 : c.width;
    return sum;
  }
  size_t needed() const {
    const bool text =
        std::any_of(columns_.begin(), columns_.end(), [](const Column& c) { return c.width == 0; });
    return fixed() + (text ? kLeastText : 0);
  }
  size_t width_of(size_t i) const {
    if (columns_[i].width != 0) return columns_[i].width;
    return width_ > fixed() ? width_ - fixed() : 0;
  }
  bool drop_least() {
    const auto least = std::max_element(columns_.begin(), columns_.end(),
                                        [](const Column& a, const Column& b) { return a.rank < b.rank; });
    if (least == columns_.end() || least->rank <= 0) return false;
    least->rank = kDropped;
    return true;
  }

  std::vector<Column> columns_;
  size_t width_;
};

// --- what a snapshot says

// FORGET has no reply, so it has no latency.
constexpr std::string_view kForget = "FORGET";

void add(LatencyCounts& sum, const LatencyCounts& more) {
  for (size_t i = 0; i < latency::kBuckets; ++i) sum[i] += more[i];
}

struct Totals {
  uint64_t requests = 0;
  uint64_t max_us = 0;
  LatencyCounts latency;
};

Totals fuse_totals(const Snapshot& s) {
  Totals t;
  for (const FuseOperation& o : s.fuse.operations) {
    if (o.name == kForget) continue;
    t.requests += o.requests;
    t.max_us = std::max(t.max_us, o.max_us);
    add(t.latency, o.latency);
  }
  return t;
}

std::string quantile_text(const LatencyCounts& latency, double share, uint64_t max_us) {
  if (latency.total() == 0) return "-";
  return time_text(std::min(latency.quantile(share), static_cast<double>(max_us)));
}

// --- the list of mounts

const std::vector<Column>& mount_columns() {
  static const std::vector<Column> columns = {{"", 2, 0},        {"MOUNT POINT", 0, 0}, {"READ/s", 8, 1},
                                              {"WRITE/s", 9, 2}, {"OPS/s", 8, 3},       {"MEDIAN", 8, 4},
                                              {"99%", 8, 5},     {"DIRTY", 8, 6}};
  return columns;
}

Row mount_row(const MountView& m, bool selected) {
  Row row = {selected ? "> " : "  ", printable(m.mount_point)};
  if (!m.known) {
    row.resize(mount_columns().size());
    return row;
  }
  const Totals t = fuse_totals(m.shown);
  row.push_back(bytes_text(rate(m.shown.fuse.read_bytes, m.seconds)));
  row.push_back(bytes_text(rate(m.shown.fuse.write_bytes, m.seconds)));
  row.push_back(count_text(rate(t.requests, m.seconds)));
  row.push_back(quantile_text(t.latency, 0.5, t.max_us));
  row.push_back(quantile_text(t.latency, 0.99, t.max_us));
  row.push_back(bytes_text(static_cast<double>(m.shown.client.cache.dirty_bytes)));
  return row;
}

bool is_alarming(const MountView& m) {
  return !m.problem.empty() || (m.known && !m.shown.responding);
}

// Shows `room` mounts around the selected one.
void add_mounts(Lines& out, const std::vector<MountView>& mounts, size_t selected, size_t width,
                size_t room) {
  const Table table(mount_columns(), width);
  out.push_back({table.head(), Style::kHead});
  const size_t shown = std::min(room, mounts.size());
  const size_t first = std::min(selected >= shown ? selected + 1 - shown : 0, mounts.size() - shown);
  for (size_t i = first; i < first + shown; ++i) {
    const bool chosen = i == selected;
    out.push_back({table.line(mount_row(mounts[i], chosen)), is_alarming(mounts[i]) ? Style::kAlarm
                                                             : chosen               ? Style::kSelected
                                                                                    : Style::kPlain});
  }
  if (mounts.empty()) out.push_back({"  no mounts of yours", Style::kPlain});
}

// --- the details of a mount

std::string transport_text(const Snapshot& s) {
  if (s.client.transports.empty()) return "no connection";
  const rpc::TransportStatus& t = s.client.transports.front();
  std::string text = fmt::format("{} {}", t.protocol, transport_state_name(t.state));
  if (!t.peer.empty()) text += " to " + t.peer;
  if (s.client.transports.size() > 1) text += fmt::format(", {} connections", s.client.transports.size());
  if (t.rdma) {
    if (t.rdma->version != 0) text += fmt::format(", version {}", t.rdma->version);
    text += fmt::format(", {}", t.rdma->fabric);
    if (!t.rdma->fabric_reason.empty()) text += fmt::format(" ({})", t.rdma->fabric_reason);
  }
  return text;
}

uint64_t nfs_reads(const Snapshot& s) {
  uint64_t reads = 0;
  for (const client::OperationStatistics& o : s.client.operations) {
    if (o.name == "READ") reads += o.requests;
  }
  return reads;
}

// How the data of READs arrived. RDMA: counted in READs, because each READ uses one way. TCP: counted in
// bytes.
struct ReadData {
  std::string where;
  std::string why;  // why READs were not placed; may be empty
};

ReadData read_data(const Snapshot& s) {
  uint64_t placed = 0, spliced = 0, copied = 0, short_enough = 0, in_long = 0, unused = 0;
  bool rdma = false;
  for (const rpc::TransportStatus& t : s.client.transports) {
    placed += t.bytes_placed;
    spliced += t.bytes_spliced;
    copied += t.bytes_copied;
    if (!t.rdma) continue;
    rdma = true;
    short_enough += t.rdma->reads_inline;
    in_long += t.rdma->reads_long;
    unused += t.rdma->reads_chunk_unused;
  }
  if (!rdma) {
    const uint64_t all = placed + copied;
    return {fmt::format("{} placed without a copy ({} spliced), {} copied", percent_text(placed, all),
                        percent_text(spliced, all), percent_text(copied, all)),
            ""};
  }
  const uint64_t elsewhere = short_enough + in_long + unused;
  const uint64_t all = std::max(nfs_reads(s), elsewhere);
  ReadData data;
  data.where = fmt::format("{} of READs placed, {} inline, {} copied", percent_text(all - elsewhere, all),
                           percent_text(short_enough, all), percent_text(in_long + unused, all));
  if (elsewhere != 0)
    data.why =
        fmt::format("{} short enough for inline, {} long replies, {} chunks unused",
                    percent_text(short_enough, all), percent_text(in_long, all), percent_text(unused, all));
  return data;
}

std::string limits_text(const Snapshot& s) {
  const client::SessionStatistics& session = s.client.session;
  std::string text = session.slots == 0
                         ? std::string("no session")
                         : fmt::format("slots {} of {} in use", session.slots_in_use, session.slots);
  uint64_t used = 0, granted = 0;
  for (const rpc::TransportStatus& t : s.client.transports) {
    if (!t.rdma) continue;
    used += t.rdma->credits_in_use;
    granted += t.rdma->credits_granted;
  }
  if (granted != 0) text += fmt::format("; credits {} of {} in use", used, granted);
  return text + fmt::format("; {} requests under way", s.fuse.in_flight);
}

std::string cache_text(const Snapshot& s) {
  const client::CacheStatistics& c = s.client.cache;
  return fmt::format("names {}, attributes {}, read data {}; uncommitted {}",
                     percent_text(c.name_hits, c.name_hits + c.name_misses),
                     percent_text(c.attribute_hits, c.attribute_hits + c.attribute_misses),
                     percent_text(c.data_hit_bytes, s.fuse.read_bytes),
                     bytes_text(static_cast<double>(c.uncommitted_bytes)));
}

void add_facts(Lines& out, const MountView& m) {
  out.push_back({fmt::format("{} on {}", printable(m.source), printable(m.mount_point)), Style::kTitle});
  if (!m.problem.empty()) out.push_back({"  " + printable(m.problem), Style::kAlarm});
  if (!m.known) return;
  if (!m.shown.responding) out.push_back({"  the server does not respond", Style::kAlarm});
  if (m.since_mount) out.push_back({"  averages since the mount", Style::kPlain});
  out.push_back({"  connection  " + printable(transport_text(m.shown)), Style::kPlain});
  const ReadData data = read_data(m.shown);
  out.push_back({"  READ data   " + data.where, Style::kPlain});
  if (!data.why.empty()) out.push_back({"  not placed  " + data.why, Style::kPlain});
  out.push_back({"  limits      " + limits_text(m.shown), Style::kPlain});
  out.push_back({"  from cache  " + cache_text(m.shown), Style::kPlain});
}

struct OperationRow {
  std::string name;
  uint64_t requests = 0;
  uint64_t max_us = 0;
  const LatencyCounts* latency = nullptr;
};

template <class Operations>
std::vector<OperationRow> operation_rows(const Operations& operations) {
  std::vector<OperationRow> rows;
  for (const auto& o : operations) {
    if (o.requests != 0 && o.name != kForget) rows.push_back({o.name, o.requests, o.max_us, &o.latency});
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const OperationRow& a, const OperationRow& b) { return a.requests > b.requests; });
  return rows;
}

Lines operations_table(std::string_view head, const std::vector<OperationRow>& rows, double seconds,
                       size_t width) {
  const Table table({{head, 0, 0}, {"OPS/s", 7, 1}, {"MEDIAN", 7, 2}, {"99%", 7, 3}, {"MAX", 7, 4}}, width);
  Lines out{{table.head(), Style::kHead}};
  for (const OperationRow& r : rows) {
    out.push_back(
        {table.line({"  " + printable(r.name), count_text(rate(r.requests, seconds)),
                     quantile_text(*r.latency, 0.5, r.max_us), quantile_text(*r.latency, 0.99, r.max_us),
                     time_text(static_cast<double>(r.max_us))}),
         Style::kPlain});
  }
  if (rows.empty()) out.push_back({cut("  none", width), Style::kPlain});
  return out;
}

// FUSE operations beside the NFS operations that they caused, if there is room.
void add_operations(Lines& out, const MountView& m, size_t width) {
  constexpr size_t kGap = 2, kSideBySide = 76;
  const bool beside = width >= kSideBySide;
  const size_t half = beside ? (width - kGap) / 2 : width;
  const Lines left = operations_table("  FUSE", operation_rows(m.shown.fuse.operations), m.seconds, half);
  const Lines right = operations_table("  NFS", operation_rows(m.shown.client.operations), m.seconds, half);
  if (!beside) {
    out.insert(out.end(), left.begin(), left.end());
    out.insert(out.end(), right.begin(), right.end());
    return;
  }
  for (size_t i = 0; i < std::max(left.size(), right.size()); ++i) {
    std::string text = pad(i < left.size() ? left[i].text : "", half + kGap, true);
    if (i < right.size()) text += right[i].text;
    out.push_back({std::move(text), i == 0 ? Style::kHead : Style::kPlain});
  }
}

void add_processes(Lines& out, const MountView& m, size_t width) {
  const Table table({{"PID", 9, 1},
                     {"  COMMAND", 0, 0},
                     {"OPS/s", 8, 2},
                     {"READ/s", 8, 3},
                     {"WRITE/s", 9, 4},
                     {"AVERAGE", 9, 5}},
                    width);
  out.push_back({table.head(), Style::kHead});
  for (const ProcessLoad& l : m.processes) {
    if (l.requests == 0) continue;
    out.push_back(
        {table.line({l.id == 0 ? "-" : fmt::format("{}", l.id), "  " + printable(l.name()),
                     count_text(rate(l.requests, m.seconds)), bytes_text(rate(l.read_bytes, m.seconds)),
                     bytes_text(rate(l.write_bytes, m.seconds)),
                     time_text(static_cast<double>(l.total_us) / static_cast<double>(l.requests))}),
         Style::kPlain});
  }
  if (m.processes.empty()) out.push_back({"  none", Style::kPlain});
}

void add_details(Lines& out, const MountView& m, bool by_process, size_t width) {
  add_facts(out, m);
  if (!m.known) return;
  out.push_back({"", Style::kPlain});
  if (by_process) {
    add_processes(out, m, width);
  } else {
    add_operations(out, m, width);
  }
}

void add_help(Lines& out) {
  for (const char* text :
       {"up, down  choose the mount", "p         processes, or operations", "h         this help, or not",
        "q         quit", "", "READ/s, WRITE/s: bytes that applications read and wrote.",
        "OPS/s: their requests. MEDIAN, 99%: how long these took, within 12.5 %.",
        "DIRTY: written by applications, and not yet by the server.",
        "READ data: placed by the network in its place, or copied, and why.",
        "AVERAGE: time of a request of this process."})
    out.push_back({text, Style::kPlain});
}

std::string title(std::string_view clock, double interval, size_t mounts) {
  return fmt::format("nfsrdma-fuse top {}  {} mount{}, every {:g} s   h: help", clock, mounts,
                     mounts == 1 ? "" : "s", interval);
}

void fit(Lines& lines, size_t width, size_t height) {
  if (lines.size() > height) lines.resize(height);
  for (Line& line : lines) {
    line.text = cut(line.text, width);
    while (line.text.ends_with(' ')) line.text.pop_back();
  }
}

}  // namespace

std::vector<Line> screen(const std::vector<MountView>& mounts, const Choice& choice, std::string_view clock,
                         double interval, size_t width, size_t height) {
  Lines out;
  out.push_back({title(clock, interval, mounts.size()), Style::kTitle});
  if (choice.help) {
    add_help(out);
  } else {
    const size_t selected = mounts.empty() ? 0 : std::min(choice.selected, mounts.size() - 1);
    add_mounts(out, mounts, selected, width, std::max<size_t>(1, height / 3));
    out.push_back({"", Style::kPlain});
    if (!mounts.empty()) add_details(out, mounts[selected], choice.by_process, width);
  }
  fit(out, width, height);
  return out;
}

std::string batch_text(const std::vector<MountView>& mounts, std::string_view clock, bool by_process) {
  constexpr size_t kWidth = 132;
  Lines out;
  out.push_back(
      {fmt::format("{}  {} mount{}", clock, mounts.size(), mounts.size() == 1 ? "" : "s"), Style::kTitle});
  add_mounts(out, mounts, mounts.size(), kWidth, mounts.size());
  for (const MountView& m : mounts) {
    out.push_back({"", Style::kPlain});
    add_details(out, m, by_process, kWidth);
  }
  fit(out, kWidth, out.size());
  std::string text;
  for (const Line& line : out) text += line.text + '\n';
  return text;
}

}  // namespace nfsrdma::cli::top
