// SPDX-License-Identifier: Apache-2.0
#include "cli/mount/confinement.h"

#include <fmt/core.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "cli/mount/system_call_filter.h"
#include "cli/support/mountinfo.h"
#include "transport/runtime/log.h"
#include "transport/runtime/proc.h"

namespace nfsrdma::cli {
namespace {

#ifdef NFSRDMA_SANITIZED
constexpr bool kSanitized = true;  // the sanitizers' run time needs more, e.g. ptrace(2)
#else
constexpr bool kSanitized = false;
#endif

constexpr int kMostCapabilities = 64;

constexpr uint64_t bit(int capability) {
  return uint64_t{1} << capability;
}

tl::unexpected<Failure> failed(const char* what) {
  return refuse(MountExit::kSystem, fmt::format("{}: {}", what, std::strerror(errno)));
}

// Returns the value of `name` in a list of options; empty if it is not in the list.
std::string option_of(const std::string& options, const std::string& name) {
  const std::string list = "," + options + ",", wanted = "," + name + "=";
  const size_t at = list.find(wanted);
  if (at == std::string::npos) return {};
  const size_t begin = at + wanted.size();
  return list.substr(begin, list.find(',', begin) - begin);
}

bool in_group(gid_t group) {
  std::vector<gid_t> groups(static_cast<size_t>(std::max(getgroups(0, nullptr), 0)));
  if (getgroups(static_cast<int>(groups.size()), groups.data()) < 0) groups.clear();
  return group == getegid() || std::find(groups.begin(), groups.end(), group) != groups.end();
}

// proc(5): members of the group in gid= (default: root's) see all processes, except with hidepid=ptraceable.
bool hides_processes(const MountEntry& entry) {
  const std::string hidden = option_of(entry.fs_options, "hidepid");
  if (hidden.empty() || hidden == "off" || hidden == "0") return false;
  if (hidden == "ptraceable" || hidden == "4") return true;
  return !in_group(static_cast<gid_t>(std::strtoul(option_of(entry.fs_options, "gid").c_str(), nullptr, 10)));
}

bool processes_are_hidden() {
  struct stat st {};
  if (fstat(Proc::ours().descriptor(), &st) != 0) return false;
  const auto table = read_mountinfo();
  return std::any_of(table.begin(), table.end(), [&](const MountEntry& entry) {
    return makedev(entry.major, entry.minor) == st.st_dev && hides_processes(entry);
  });
}

bool raise_memory_limit() {
  constexpr rlimit kUnlimited{RLIM_INFINITY, RLIM_INFINITY};
  return setrlimit(RLIMIT_MEMLOCK, &kUnlimited) == 0;
}

Outcome<> set_capabilities(uint64_t kept) {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3] = {};
  if (syscall(SYS_capget, &header, sets) != 0) return failed("capget");
  for (unsigned word = 0; word < _LINUX_CAPABILITY_U32S_3; ++word) {
    sets[word].permitted &= static_cast<uint32_t>(kept >> (32 * word));
    sets[word].effective = sets[word].permitted;
    sets[word].inheritable = 0;
  }
  if (syscall(SYS_capset, &header, sets) != 0) return failed("capset");
  return {};
}

// Some containers lack CAP_SETPCAP, and the bounding set then stays. It only affects execve(2), which grants
// no capabilities anyway (no_new_privs).
void shrink_bounding_set(uint64_t kept) {
  for (int capability = 0; capability < kMostCapabilities; ++capability) {
    if ((kept & bit(capability)) == 0 && prctl(PR_CAPBSET_READ, capability, 0, 0, 0) == 1)
      (void)prctl(PR_CAPBSET_DROP, capability, 0, 0, 0);
  }
}

Outcome<> confine_thread(uint64_t kept, const FilterOptions& options) {
  if (auto done = drop_capabilities(kept); !done) return done;
  return filter_system_calls(options);
}

}  // namespace

uint64_t kept_capabilities(const CapabilityNeeds& needs) {
  uint64_t kept = 0;
  for (const KeptCapability& one : kKeptCapabilities) {
    if (one.only_if == nullptr || needs.*one.only_if) kept |= bit(one.number);
  }
  return kept;
}

CapabilityNeeds prepare_for_confinement() {
  CapabilityNeeds needs;
  needs.hidden_processes = processes_are_hidden();
  needs.limited_memory = !raise_memory_limit();
  return needs;
}

Outcome<> drop_capabilities(uint64_t kept) {
  shrink_bounding_set(kept);
  (void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return failed("no_new_privs");
  return set_capabilities(kept);
}

void confine_daemon(const fuse::MountNamespace& where) {
  if (kSanitized || geteuid() != 0) return;
  const uint64_t kept = kept_capabilities(prepare_for_confinement());
  FilterOptions options;
  if (const char* file = secure_getenv(kForbiddenCallsVariable)) options.forbidden_calls_file = file;
  const auto confine = [&] { return confine_thread(kept, options); };
  // The thread inside a foreign mount namespace must not keep rights that the process' own thread has
  // dropped.
  Outcome<> done = where.foreign() ? where.run(confine) : Outcome<>{};
  if (done) done = confine();
  if (!done) log::warn("the daemon is not confined: {}", done.error().text);
}

}  // namespace nfsrdma::cli
