// SPDX-License-Identifier: Apache-2.0
#include "cli/doctor/gather.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <linux/capability.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timex.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>
#include <memory>
#include <thread>
#include <utility>

#include "cli/doctor/gather_server.h"
#include "cli/mount/mount_point.h"
#include "cli/options/option_split.h"
#include "cli/options/options.h"
#include "cli/options/source.h"
#include "cli/server/translate.h"
#include "cli/stats/take_snapshot.h"
#include "cli/support/version.h"
#include "transport/memory/available_memory.h"

namespace nfsrdma::cli::doctor {
namespace {

std::string word_of(const std::string& path) {
  std::string text = contents(path);
  text.erase(std::find_if(text.begin(), text.end(), [](char c) { return c == '\n' || c == ' '; }),
             text.end());
  return text;
}

bool may_lock_memory() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2] = {};
  if (syscall(SYS_capget, &header, data) != 0) return false;
  return (data[0].effective & (1U << CAP_IPC_LOCK)) != 0;
}

bool clock_is_kept() {
  timex state{};
  return adjtimex(&state) >= 0 && (state.status & STA_UNSYNC) == 0;
}

std::optional<bool> page_reporting() {
  std::error_code none;
  const std::filesystem::path driver = "/sys/bus/virtio/drivers/virtio_balloon";
  for (const auto& entry : std::filesystem::directory_iterator(driver, none)) {
    const std::string features = contents(entry.path() / "features");
    if (!features.empty()) return reports_pages(features);
  }
  return std::nullopt;
}

std::string idmap_domain() {
  std::string domain = domain_in(contents("/etc/idmapd.conf"));
  if (!domain.empty()) return domain;
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  const char* dot = std::strchr(host, '.');
  return dot == nullptr ? "" : dot + 1;
}

MachineFacts gather_machine() {
  MachineFacts m;
  m.root = geteuid() == 0;
  utsname name{};
  uname(&name);
  m.kernel = name.release;
  std::sscanf(name.release, "%u.%u", &m.kernel_major, &m.kernel_minor);
  // Separates the problems of the device and of fusermount3: check_fuse(0) checks only the device, and a
  // user's check includes fusermount3.
  if (auto device = check_fuse(0); !device) m.device_problem = device.error().text;
  if (m.device_problem.empty()) {
    if (auto helper = check_fuse(m.root ? 1 : geteuid()); !helper) m.helper_problem = helper.error().text;
  }
  MountOptions others;
  others.allow_other = true;
  m.user_allow_other = check_privilege(others, false, contents("/etc/fuse.conf")).has_value();
  rlimit limit{};
  getrlimit(RLIMIT_MEMLOCK, &limit);
  m.memlock_bytes = limit.rlim_cur == RLIM_INFINITY ? UINT64_MAX : limit.rlim_cur;
  m.memlock_exempt = may_lock_memory();
  const Memory memory = memory_for_us();
  m.memory_bytes = memory.total;
  m.memory_available_bytes = memory.available;
  m.cache_bytes = default_cache_bytes(memory.total);
  m.rdma_ports = fabric::verbs::inventory();
  m.enable_uring = word_of("/sys/module/fuse/parameters/enable_uring");
  m.page_reporting = page_reporting();
  m.page_reporting_order = word_of("/sys/module/page_reporting/parameters/page_reporting_order");
  m.clock_synchronised = clock_is_kept();
  m.idmap_domain = idmap_domain();
  const std::string first = word_of("/proc/sys/net/ipv4/ip_unprivileged_port_start");
  std::from_chars(first.data(), first.data() + first.size(), m.first_user_port);
  return m;
}

MountFacts gather_mount(const MountEntry& entry) {
  MountFacts m;
  m.mount_point = entry.mount_point;
  m.source = entry.source;
  m.may_ask = geteuid() == 0 || geteuid() == entry.owner();
  if (!m.may_ask) return m;
  auto snapshot = take_snapshot(entry);
  if (!snapshot) {
    m.error = snapshot.error().text;
    return m;
  }
  m.log_file = log_file_in(snapshot->mount_options);
  m.snapshot = *std::move(snapshot);
  return m;
}

// The value of one item in a comma-separated list of options.
std::string value_in(std::string_view options, std::string_view name) {
  const auto list = split_options(options);
  if (!list) return {};
  for (const RawOption& option : *list) {
    if (option.name == name && option.value) return *option.value;
  }
  return {};
}

ProbeVerb server_of(const MountFacts& mount) {
  ProbeVerb verb;
  verb.server = mount.source;
  if (!mount.snapshot) return verb;
  if (const auto source = parse_source(mount.source); !source || source->port) return verb;
  if (auto list = split_options(way_in(mount.snapshot->mount_options, mount.snapshot->found_transport)))
    verb.options = *std::move(list);
  return verb;
}

// True for "/mnt", "./x", "x/y"; false for "filer:/x".
bool looks_like_a_path(const std::string& what) {
  return what.starts_with('.') || what.find('/') < what.find(':');
}

// Does not ask a server, even if one is mounted there.
bool is_directory(const std::string& what) {
  struct statx st {};
  return statx(AT_FDCWD, what.c_str(), AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT, STATX_TYPE, &st) == 0 &&
         S_ISDIR(st.stx_mode);
}

}  // namespace

std::string contents(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

bool reports_pages(std::string_view features) {
  constexpr size_t kReporting = 5;
  return features.size() > kReporting && features[kReporting] == '1';
}

std::string domain_in(std::string_view text) {
  const auto trimmed = [](std::string_view part) {
    while (!part.empty() && std::strchr(" \t\r", part.front()) != nullptr) part.remove_prefix(1);
    while (!part.empty() && std::strchr(" \t\r", part.back()) != nullptr) part.remove_suffix(1);
    return part;
  };
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const size_t equals = line.find('=');
    if (equals != std::string_view::npos && trimmed(line.substr(0, equals)) == "Domain")
      return std::string(trimmed(line.substr(equals + 1)));
  }
  return {};
}

std::string way_in(std::string_view options, bool found_transport) {
  const std::string port = value_in(options, "port"), proto = value_in(options, "proto");
  // If the user named no transport, the doctor tries all transports again as a mount does (mount/ladder.h),
  // unless the mount has a port other than the usual ones.
  const bool usual = port.empty() || port == std::to_string(kNfsPort) || port == std::to_string(kNfsRdmaPort);
  if (found_transport && usual) return {};
  std::string out;
  if (!port.empty()) out = "port=" + port;
  if (!proto.empty()) out += (out.empty() ? "proto=" : ",proto=") + proto;
  return out;
}

std::string log_file_in(std::string_view options) {
  const std::string value = value_in(options, "log");
  return value.starts_with('/') ? value : std::string();
}

Outcome<Facts> gather(const std::string& what) {
  const auto end = std::chrono::steady_clock::now() + kLongest;
  Facts facts;
  facts.version = kVersion;
  const auto table = read_mountinfo();
  if (what.empty()) {
    for (const MountEntry& entry : table) {
      if (entry.ours()) facts.mounts.push_back(gather_mount(entry));
    }
  } else if (auto entry = find_our_mount(table, what, true)) {
    facts.mounts.push_back(gather_mount(*entry));
    facts.server = gather_server(server_of(facts.mounts.front()), end);
  } else if (looks_like_a_path(what)) {
    return tl::unexpected(entry.error());
  } else {
    ProbeVerb verb;
    verb.server = what;
    if (auto ways = ways_to_server(verb); !ways) return tl::unexpected(ways.error());
    facts.server = gather_server(verb, end);
    if (!facts.server->resolved && is_directory(what)) return tl::unexpected(entry.error());
  }
  facts.machine = gather_machine();
  return facts;
}

}  // namespace nfsrdma::cli::doctor
