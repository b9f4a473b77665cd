// SPDX-License-Identifier: Apache-2.0
#include "cli/doctor/checks.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "cli/support/outcome.h"

namespace nfsrdma::cli::doctor {
namespace {

using Findings = std::vector<Finding>;

// The oldest kernel that the project is tested on (Debian 12), and the first kernel whose FUSE has what the
// daemon requires. On a kernel between the two the daemon requests fewer features.
constexpr unsigned kTestedMajor = 6, kTestedMinor = 1;
constexpr unsigned kOldestMajor = 5, kOldestMinor = 4;
constexpr unsigned kSmallestMtu = 1280;  // IPv6's minimum (RFC 8200 section 5); less suggests nested tunnels
// A larger clock difference shows in file times and misleads `make`.
constexpr double kClockSeconds = 2;
// A cache that is limited below this share of its configured size is under memory pressure.
constexpr double kPressed = 0.5;
constexpr uint64_t kSomeReads = 16;

Finding good(std::string text) {
  return {Verdict::kGood, std::move(text), {}};
}
Finding warn(std::string text, std::string remedy) {
  return {Verdict::kWarn, std::move(text), std::move(remedy)};
}
Finding wrong(std::string text, std::string remedy) {
  return {Verdict::kBad, std::move(text), std::move(remedy)};
}
Finding unknown(std::string text, std::string remedy = {}) {
  return {Verdict::kUnknown, std::move(text), std::move(remedy)};
}

std::string mib(uint64_t bytes) {
  return fmt::format("{} MiB", bytes >> 20);
}

// Splits "what is wrong; what mends it", the form of mount's failures, into text and remedy.
Finding problem(const std::string& line) {
  const size_t cut = line.rfind("; ");
  if (cut == std::string::npos) return wrong(line, {});
  return wrong(line.substr(0, cut), line.substr(cut + 2));
}

std::string on_port(const ServerFacts& s, const PortFacts& p) {
  return fmt::format("{} port {}", s.host, p.port);
}

// --- this machine

Findings judge_kernel(const Facts& f) {
  const MachineFacts& m = f.machine;
  const auto version = std::pair(m.kernel_major, m.kernel_minor);
  if (m.kernel_major == 0) return {unknown(fmt::format("Linux {}", m.kernel))};
  if (version < std::pair(kOldestMajor, kOldestMinor))
    return {wrong(fmt::format("Linux {} is older than {}.{}", m.kernel, kOldestMajor, kOldestMinor),
                  "install a newer kernel, with Debian 'apt install linux-image-amd64' and a restart")};
  if (version < std::pair(kTestedMajor, kTestedMinor))
    return {warn(
        fmt::format("Linux {}; this program is tested from {}.{} on", m.kernel, kTestedMajor, kTestedMinor),
        "install a newer kernel if something is odd")};
  return {good(fmt::format("Linux {}", m.kernel))};
}

Findings judge_fuse(const Facts& f) {
  if (!f.machine.device_problem.empty()) return {problem(f.machine.device_problem)};
  return {good("/dev/fuse can be opened")};
}

Findings judge_fusermount(const Facts& f) {
  if (f.machine.helper_problem.empty()) return {good("users other than root can mount")};
  Finding finding = problem(f.machine.helper_problem);
  if (f.machine.root) {
    finding.verdict = Verdict::kWarn;
    finding.text += " (root needs none)";
  }
  return {std::move(finding)};
}

Findings judge_allow_other(const Facts& f) {
  if (f.machine.root) return {good("root's mounts serve all users")};
  if (f.machine.user_allow_other) return {good("users may mount with allow_other")};
  return {good(
      "users' mounts are for themselves: /etc/fuse.conf has no user_allow_other, which allow_other wants")};
}

Findings judge_memlock(const Facts& f) {
  const MachineFacts& m = f.machine;
  if (m.rdma_ports.empty()) return {};  // software RDMA locks no memory
  if (m.memlock_exempt || m.memlock_bytes == UINT64_MAX)
    return {good("memory for RDMA devices is not limited")};
  const std::string limit = fmt::format("RLIMIT_MEMLOCK is {}, and a mount keeps up to {}",
                                        mib(m.memlock_bytes), mib(m.cache_bytes));
  if (m.memlock_bytes / 2 >= m.cache_bytes) return {good(limit)};
  return {warn(limit + "; through an RDMA device it keeps half of the limit at most",
               fmt::format("run 'ulimit -l {0}' before mounting, or write '* - memlock {0}' into "
                           "/etc/security/limits.d/nfsrdma-fuse.conf",
                           m.cache_bytes * 2 >> 10))};
}

Findings judge_rdma_devices(const Facts& f) {
  Findings out;
  for (const auto& port : f.machine.rdma_ports) {
    if (port.error != 0) {
      out.push_back(
          wrong(fmt::format("RDMA device {}: {}", port.device, std::strerror(port.error)),
                "see that /dev/infiniband/uverbs* can be opened by this user, and 'dmesg' for the driver"));
    } else if (!port.active) {
      out.push_back(
          warn(fmt::format("RDMA device {} port {}: {}", port.device, port.port, port.state),
               "run 'ip link' and 'rdma link': the network interface must be up, its cable connected"));
    } else {
      out.push_back(good(
          fmt::format("RDMA device {} port {} is active on {}", port.device, port.port, port.link_layer)));
    }
  }
  if (out.empty()) out.push_back(good("no RDMA device; software RDMA does without"));
  return out;
}

Findings judge_mtu(const Facts& f) {
  Findings out;
  for (const auto& port : f.machine.rdma_ports) {
    if (port.error != 0 || !port.active || port.mtu == 0) continue;
    const std::string text = fmt::format("RDMA device {} port {}: MTU {} of {}", port.device, port.port,
                                         port.mtu, port.largest_mtu);
    if (port.mtu >= port.largest_mtu || port.link_layer != "Ethernet") {
      out.push_back(good(text));
    } else {
      out.push_back(warn(text,
                         "set the interface's MTU to 4200 or more on both sides and the switch between ('ip "
                         "link set dev NAME mtu 4200')"));
    }
  }
  if (f.server && f.server->tcp && f.server->tcp->path_mtu != 0) {
    const unsigned mtu = f.server->tcp->path_mtu;
    const std::string text = fmt::format("packets to {} carry {} bytes", f.server->host, mtu);
    out.push_back(
        mtu >= kSmallestMtu
            ? good(text)
            : warn(text, fmt::format("run 'tracepath {}' to see where it gets so small", f.server->host)));
  }
  return out;
}

Findings judge_uring(const Facts& f) {
  const std::string& enabled = f.machine.enable_uring;
  if (enabled.empty()) return {good("this fuse module has no io_uring; the daemon uses none")};
  return {good(fmt::format("fuse's enable_uring is {}; the daemon does not use it", enabled))};
}

Findings judge_page_reporting(const Facts& f) {
  const MachineFacts& m = f.machine;
  if (!m.page_reporting) return {};
  if (!*m.page_reporting) return {good("this virtual machine does not give free pages back to its host")};
  const std::string order =
      m.page_reporting_order.empty() ? "" : fmt::format(" (page_reporting_order {})", m.page_reporting_order);
  return {warn(fmt::format("this virtual machine gives free pages back to its host{}: the first use of "
                           "memory is slow, and first reads with it",
                           order),
               "have the host start it without (QEMU: -device virtio-balloon-pci,free-page-reporting=off)")};
}

// --- the server

Findings judge_dns(const Facts& f) {
  if (!f.server) return {};
  const ServerFacts& s = *f.server;
  if (s.resolve_timed_out)
    return {wrong(fmt::format("{}: the name service does not answer", s.host),
                  "see /etc/resolv.conf, or mount by address")};
  if (!s.resolved)
    return {wrong(fmt::format("{}: {}", s.host, s.resolve_error),
                  fmt::format("run 'getent ahosts {}', and see /etc/hosts and /etc/resolv.conf", s.host))};
  Findings out;
  std::string list;
  for (const std::string& address : s.addresses) list += (list.empty() ? "" : ", ") + address;
  out.push_back(
      good(s.literal ? fmt::format("{} is an address", s.host) : fmt::format("{} is {}", s.host, list)));
  if (!s.reverse.empty()) {
    out.push_back(good(fmt::format("{} is called {}", s.addresses.front(), s.reverse)));
  } else {
    out.push_back(
        unknown(fmt::format("{} has no name: nothing here needs one, Kerberos would", s.addresses.front())));
  }
  return out;
}

bool rdma_works(const ServerFacts& s) {
  return std::any_of(s.rdma.begin(), s.rdma.end(), [](const RdmaFacts& one) { return one.works; });
}

// The state of a TCP port. Silence means a firewall that drops packets, or a machine that is off. A refusal
// comes from a machine that is up.
Findings judge_ports(const Facts& f) {
  if (!f.server || !f.server->resolved || !f.server->tcp) return {};
  const ServerFacts& s = *f.server;
  const PortFacts& p = *s.tcp;
  const std::string where = on_port(s, p);
  Finding finding;
  switch (p.state) {
    case PortState::kOpen: return {good(where + " takes connections")};
    case PortState::kRefused:
      finding = wrong(where + " refuses connections: the machine is up, and no NFS server listens there",
                      "start it there ('systemctl start nfs-server'), or give its port with -o port=");
      break;
    case PortState::kSilent:
      finding = wrong(
          where + " answers nothing: a firewall drops the packets, or the machine is off",
          fmt::format("run 'ping {0}', and let the firewall pass TCP port {1} from here", s.host, p.port));
      break;
    case PortState::kUnreachable:
      finding =
          wrong(fmt::format("{}: {}", where, p.error),
                fmt::format("run 'ip route get {}'", s.addresses.empty() ? s.host : s.addresses.front()));
      break;
  }
  if (rdma_works(s)) finding.verdict = Verdict::kWarn;
  return {std::move(finding)};
}

Findings judge_rdma(const Facts& f) {
  if (!f.server || !f.server->resolved || f.server->rdma.empty()) return {};
  Findings out;
  for (const RdmaFacts& way : f.server->rdma) {
    if (way.works) return {good(way.text)};
    const std::string remedy =
        "let the server offer NFS over RDMA (port 20049), or mount with -o proto=tcp to stop asking";
    out.push_back(f.server->rdma_wanted_only ? wrong(way.text, remedy)
                                             : warn(way.text + ": mounts use TCP", remedy));
  }
  return {out.back()};
}

Findings judge_versions(const Facts& f) {
  if (!f.server || !f.server->tcp || f.server->tcp->state != PortState::kOpen) return {};
  const ServerFacts& s = *f.server;
  const PortFacts& p = *s.tcp;
  const std::string where = on_port(s, p);
  switch (p.answer) {
    case NfsAnswer::kVersion4: return {good(where + " answers NFS version 4")};
    case NfsAnswer::kVersion3:
      return {warn(where + " answers NFS version 3 only: locks then exclude programs of this machine alone",
                   "let the server offer version 4.1 (knfsd: 'vers4=y' in /etc/nfs.conf)")};
    case NfsAnswer::kNotNfs:
      return {wrong(fmt::format("{}: {}", where, p.answer_text),
                    "see that this is the NFS server's port, or give another with -o port=")};
    case NfsAnswer::kNone: break;
  }
  return {wrong(
      where + " takes the connection and answers nothing: the server hangs, or something between holds it up",
      "restart the NFS service there; see that no proxy stands between")};
}

Findings judge_session(const Facts& f) {
  if (!f.server || !f.server->session) return {};
  const ServerFacts& s = *f.server;
  const SessionFacts& session = *s.session;
  if (session.timed_out)
    return {wrong(fmt::format("{} made no session in time", s.host),
                  "wait for its grace period (90 s after its start), then see its log")};
  if (!session.made && session.low_port_mends) return {};  // judge_privileged_port() reports it
  if (!session.made) {
    return {wrong(session.error,
                  s.path == "/" ? "see the server's log"
                                : fmt::format("run 'nfsrdma-fuse probe {}' to see what it exports", s.host))};
  }
  const std::string server = session.server.empty() ? std::string() : ", " + session.server;
  return {good(fmt::format("{} made a session{}, lease {} s", s.host, server, session.lease_seconds))};
}

Findings judge_exports(const Facts& f) {
  if (!f.server || !f.server->session || !f.server->session->listed) return {};
  const ServerFacts& s = *f.server;
  const SessionFacts& session = *s.session;
  if (!*session.listed)
    return {
        warn(fmt::format("{}:{} cannot be listed: {}", s.host, s.path, session.list_error),
             "ask the server's administrator for read permission, or run the doctor as a user who has it")};
  constexpr size_t kShown = 8;
  std::string names;
  for (size_t i = 0; i < std::min(kShown, session.names.size()); ++i)
    names += (i == 0 ? ": " : ", ") + session.names[i];
  if (session.entries > kShown) names += ", ...";
  if (s.path == "/" && session.entries == 0)
    return {warn(fmt::format("{} exports nothing to this machine", s.host), "see /etc/exports there")};
  return {good(fmt::format("{}:{} has {} {}{}", s.host, s.path, session.entries,
                           session.entries == 1 ? "entry" : "entries", names))};
}

Findings judge_privileged_port(const Facts& f) {
  if (!f.server || !f.server->session) return {};
  const ServerFacts& s = *f.server;
  const SessionFacts& session = *s.session;
  if (session.low_port_mends) {
    const std::string text = fmt::format("{} wants connections from ports below 1024", s.host);
    if (f.machine.root) return {good(text + ", which root's mounts have")};
    return {wrong(text, "mount as root, or let it export with \"insecure\"")};
  }
  if (session.refused && !f.machine.root) {
    if (f.machine.first_user_port < 1024)
      return {
          warn(fmt::format("{} refuses this user, and may want ports below 1024, which users may have here",
                           s.host),
               "mount with -o resvport")};
    return {wrong(fmt::format("{} refuses this user, and may want ports below 1024", s.host),
                  "mount as root, or let it export with \"insecure\" (nfsrdma-filer: --insecure)")};
  }
  if (!session.made) return {};
  return {good(fmt::format("{} takes ports that any user has", s.host))};
}

Findings judge_clock(const Facts& f) {
  Findings out;
  if (!f.machine.clock_synchronised)
    out.push_back(warn("nothing keeps this machine's clock right",
                       "run 'timedatectl set-ntp true', or install the package chrony"));
  const std::optional<double> ahead =
      f.server && f.server->session ? f.server->session->newest_ahead_seconds : std::nullopt;
  if (ahead && *ahead > kClockSeconds) {
    out.push_back(warn(
        fmt::format("{} has files from {:.0f} s in the future: its clock is ahead of this machine's, or was",
                    f.server->host, *ahead),
        "run 'timedatectl' here and there, and let both follow NTP"));
  } else if (f.server) {
    out.push_back(unknown(
        fmt::format("whether {}'s clock agrees with this one is not known without writing a file there",
                    f.server->host),
        "compare 'date -u' here and there"));
  }
  if (out.empty()) out.push_back(good("this machine's clock is kept right"));
  return out;
}

Findings judge_idmap(const Facts& f) {
  if (!f.server || !f.server->session || f.server->session->entries == 0) return {};
  const ServerFacts& s = *f.server;
  const SessionFacts& session = *s.session;
  if (session.nobodys == session.entries) {
    return {warn(fmt::format("everything in {}:{} belongs to nobody (65534): the server sends names as "
                             "owners, or takes all for nobody",
                             s.host, s.path),
                 fmt::format("let it send numbers (knfsd: 'echo Y > "
                             "/sys/module/nfsd/parameters/nfs4_disable_idmapping'), or mount with "
                             "-o idmap=nfsidmap and the server's domain in /etc/idmapd.conf (here: {})",
                             f.machine.idmap_domain.empty() ? "none" : f.machine.idmap_domain))};
  }
  return {good(fmt::format("owners in {}:{} come as numbers", s.host, s.path))};
}

// --- mounts

std::string mount_name(const MountFacts& m) {
  return fmt::format("{} on {}", m.source, m.mount_point);
}

// An empty list counts as connected: the NFSv3 library reports no transports.
bool connected(const Snapshot& s) {
  const auto& all = s.client.transports;
  return all.empty() || std::any_of(all.begin(), all.end(), [](const rpc::TransportStatus& t) {
           return t.state == rpc::TransportState::kReady;
         });
}

Findings judge_daemon(const Facts& f) {
  Findings out;
  for (const MountFacts& m : f.mounts) {
    if (!m.may_ask) {
      out.push_back(unknown(mount_name(m) + " is another user's", "ask him, or root, to run the doctor"));
    } else if (!m.snapshot) {
      out.push_back(problem(m.error));
    } else if (m.snapshot->state != "mounted") {
      out.push_back(warn(fmt::format("{}: {}", mount_name(m), m.snapshot->state),
                         "wait until its data is on the server, or 'nfsrdma-fuse umount --force' it"));
    } else if (!m.snapshot->responding || !connected(*m.snapshot)) {
      out.push_back(wrong(mount_name(m) + (m.snapshot->responding ? ": there is no connection to the server"
                                                                  : ": the server does not answer"),
                          fmt::format("run 'nfsrdma-fuse doctor {}'", m.source)));
    } else if (m.snapshot->version != f.version) {
      out.push_back(warn(fmt::format("{}: its daemon is version {}, this program {}", mount_name(m),
                                     m.snapshot->version, f.version),
                         "unmount and mount it again"));
    } else {
      out.push_back(good(mount_name(m) + ": the daemon and the server answer"));
    }
  }
  return out;
}

struct Placed {
  uint64_t placed = 0, in_line = 0, in_long = 0, chunk_unused = 0, copied = 0;
  uint64_t elsewhere() const { return in_line + in_long + chunk_unused; }
};

Placed where_reads_went(const Snapshot& s) {
  Placed sum;
  for (const rpc::TransportStatus& t : s.client.transports) {
    if (!t.rdma) continue;
    sum.placed += t.rdma->write_chunks;
    sum.in_line += t.rdma->reads_inline;
    sum.in_long += t.rdma->reads_long;
    sum.chunk_unused += t.rdma->reads_chunk_unused;
  }
  return sum;
}

Findings judge_placement(const Facts& f) {
  Findings out;
  for (const MountFacts& m : f.mounts) {
    if (!m.snapshot) continue;
    const auto& transports = m.snapshot->client.transports;
    if (std::none_of(transports.begin(), transports.end(),
                     [](const auto& t) { return t.rdma.has_value(); })) {
      const std::string why = m.snapshot->notice.empty() ? "it was mounted so" : m.snapshot->notice;
      out.push_back(good(fmt::format("{}: TCP, so no READ data is placed by RDMA ({})", mount_name(m), why)));
      continue;
    }
    const Placed reads = where_reads_went(*m.snapshot);
    if (reads.placed + reads.elsewhere() < kSomeReads) {
      out.push_back(unknown(mount_name(m) + ": too few READs yet to say where their data goes",
                            "read a large file, and run the doctor again"));
    } else if (reads.in_long + reads.chunk_unused > reads.placed) {
      out.push_back(warn(
          fmt::format(
              "{}: of the READs {} came in a long reply and {} did not use the Write chunk; {} were placed",
              mount_name(m), reads.in_long, reads.chunk_unused, reads.placed),
          "mount with a larger inline_size, and see whether the server has newer software"));
    } else {
      out.push_back(good(fmt::format("{}: {} READs placed, {} short enough to come inline", mount_name(m),
                                     reads.placed, reads.in_line)));
    }
  }
  return out;
}

Findings judge_cache(const Facts& f) {
  Findings out;
  for (const MountFacts& m : f.mounts) {
    if (!m.snapshot) continue;
    const client::CacheStatistics& cache = m.snapshot->client.cache;
    if (cache.refused_bytes != 0) {
      out.push_back(wrong(
          fmt::format("{}: {} of written data that the server did not take are lost", mount_name(m),
                      mib(cache.refused_bytes)),
          "see the log for the error, mend it there (room, quota, permission) and write the files again"));
    } else if (cache.data_limit_bytes != 0 &&
               cache.data_limit_bytes <
                   static_cast<uint64_t>(kPressed * static_cast<double>(f.machine.cache_bytes)) &&
               f.machine.memory_available_bytes < f.machine.memory_bytes / 8) {
      out.push_back(warn(fmt::format("{}: memory is short, so it may keep {} of file data only",
                                     mount_name(m), mib(cache.data_limit_bytes)),
                         "end what takes the memory, or raise the control group's limit"));
    } else if (cache.ahead_bytes > (64u << 20) && cache.ahead_wasted_bytes > cache.ahead_bytes / 2) {
      out.push_back(warn(fmt::format("{}: {} of {} read ahead were for nothing", mount_name(m),
                                     mib(cache.ahead_wasted_bytes), mib(cache.ahead_bytes)),
                         "mount with a smaller read_ahead_kb, or a larger cache_mem"));
    } else {
      out.push_back(good(fmt::format("{}: keeps {} of at most {}", mount_name(m), mib(cache.data_bytes),
                                     mib(cache.data_limit_bytes))));
    }
  }
  return out;
}

Findings judge_log_level(const Facts& f) {
  Findings out;
  for (const MountFacts& m : f.mounts) {
    if (!m.snapshot) continue;
    const std::string& level = m.snapshot->log_level;
    if (level == "debug" || level == "trace") {
      out.push_back(
          warn(fmt::format("{}: logs at level {}, which is slow and names files", mount_name(m), level),
               fmt::format("run 'nfsrdma-fuse log-level {} info'", m.mount_point)));
    } else {
      out.push_back(good(fmt::format("{}: logs at level {}", mount_name(m), level)));
    }
  }
  return out;
}

constexpr Check kChecks[] = {
    {"daemon", "Do the mount's daemon and its server answer?", judge_daemon},
    {"name", "Does the server's name lead to an address, and back?", judge_dns},
    {"port", "Does the server's port take connections, refuse them, or say nothing?", judge_ports},
    {"version", "Which NFS versions does the server have?", judge_versions},
    {"rdma", "Does the server offer NFS over RDMA?", judge_rdma},
    {"session", "Does the server make a session?", judge_session},
    {"exports", "What does the server export to this machine?", judge_exports},
    {"low-port", "Does the server want ports below 1024?", judge_privileged_port},
    {"owners", "Do owners of files arrive as numbers?", judge_idmap},
    {"placement", "Is READ data placed by RDMA, and why not?", judge_placement},
    {"cache", "Has the mount room for data, and use for what it reads ahead?", judge_cache},
    {"log-level", "Does the mount log more than is good for its speed?", judge_log_level},
    {"clock", "Do the clocks of both machines agree?", judge_clock},
    {"kernel", "Is the kernel new enough?", judge_kernel},
    {"fuse", "Is the kernel's FUSE there?", judge_fuse},
    {"fusermount3", "Can users other than root mount?", judge_fusermount},
    {"allow-other", "May users' mounts serve other users?", judge_allow_other},
    {"rdma-device", "Are RDMA devices there, and their ports active?", judge_rdma_devices},
    {"mtu", "Are packets as large as they can be?", judge_mtu},
    {"memlock", "May RDMA devices use as much memory as the cache wants?", judge_memlock},
    {"page-reporting", "Does this virtual machine give free memory back?", judge_page_reporting},
    {"uring", "Does the fuse module take requests by io_uring?", judge_uring},
};

}  // namespace

std::string_view to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::kBad: return "bad";
    case Verdict::kWarn: return "warn";
    case Verdict::kUnknown: return "unknown";
    case Verdict::kGood: return "good";
  }
  return "unknown";
}

std::span<const Check> checks() {
  return kChecks;
}

std::vector<Result> judge(const Facts& facts) {
  std::vector<Result> out;
  for (const Check& check : kChecks) {
    for (Finding& finding : check.judge(facts)) out.push_back({&check, std::move(finding)});
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const Result& a, const Result& b) { return a.finding.verdict < b.finding.verdict; });
  return out;
}

bool any_bad(const std::vector<Result>& results) {
  return std::any_of(results.begin(), results.end(),
                     [](const Result& r) { return r.finding.verdict == Verdict::kBad; });
}

std::string text_of(const std::vector<Result>& results, size_t columns) {
  constexpr size_t kIndent = 24, kNarrowest = 40;
  const size_t room = columns < kNarrowest ? SIZE_MAX : columns - kIndent;
  std::string out;
  for (const Result& r : results) {
    const std::string remedy = r.finding.remedy.empty() ? "" : "; " + r.finding.remedy;
    const std::string said = printable(r.finding.text + remedy);
    out += fmt::format("{:<8} {:<14} ", to_string(r.finding.verdict), r.check->name);
    std::string_view left = said;
    while (left.size() > room) {
      const size_t space = left.rfind(' ', room);
      if (space == std::string_view::npos || space == 0) break;  // a long word is not broken
      out += fmt::format("{}\n{:{}}", left.substr(0, space), "", kIndent);
      left.remove_prefix(space + 1);
    }
    out += fmt::format("{}\n", left);
  }
  return out;
}

Json json_of(const Facts& facts, const std::vector<Result>& results) {
  Json list = Json::array();
  for (const Result& r : results) {
    list.push_back({{"check", r.check->name},
                    {"asks", r.check->asks},
                    {"verdict", to_string(r.finding.verdict)},
                    {"finding", r.finding.text},
                    {"remedy", r.finding.remedy}});
  }
  return {{"version", facts.version}, {"bad", any_bad(results)}, {"checks", std::move(list)}};
}

}  // namespace nfsrdma::cli::doctor
