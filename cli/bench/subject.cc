// SPDX-License-Identifier: Apache-2.0
#include "cli/bench/subject.h"

#include <fmt/core.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "cli/stats/take_snapshot.h"

namespace nfsrdma::cli::bench {
namespace {

// The sum of the threads' run times. schedstat has nanoseconds; /proc/PID/stat only has ticks of 10 ms.
std::optional<double> cpu_seconds_of(pid_t pid) {
  std::error_code error;
  double total = 0;
  size_t threads = 0;
  for (const auto& task : std::filesystem::directory_iterator(fmt::format("/proc/{}/task", pid), error)) {
    std::ifstream in(task.path() / "schedstat");
    if (double nanoseconds = 0; in >> nanoseconds) {
      total += nanoseconds * 1e-9;
      ++threads;
    }
  }
  if (threads == 0) return std::nullopt;
  return total;
}

// A call with SEQUENCE alone renews the lease. The number of these calls depends on the time and not on the
// load.
constexpr std::string_view kLease = "SEQUENCE";

uint64_t calls_of(const Snapshot& snapshot) {
  uint64_t calls = 0;
  for (const client::OperationStatistics& operation : snapshot.client.operations) {
    if (operation.name != kLease) calls += operation.requests;
  }
  return calls;
}

std::string transport_of(const Snapshot& snapshot) {
  if (snapshot.client.transports.empty()) return "not connected";
  const auto& transport = snapshot.client.transports.front();
  std::string out = transport.protocol;
  if (transport.rdma) out += fmt::format(" {} ({})", transport.rdma->version, transport.rdma->fabric);
  const size_t more = snapshot.client.transports.size();
  return more > 1 ? fmt::format("{}, {} connections", out, more) : out;
}

std::string read_file(const char* path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

std::optional<uint64_t> calls_in_mountstats(std::string_view text, std::string_view mount_point) {
  std::istringstream in{std::string(text)};
  const std::string mounted = fmt::format(" mounted on {} with ", mount_point);
  bool here = false, operations = false;
  std::optional<uint64_t> calls;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("device ")) {
      if (calls) break;
      here = line.find(mounted) != std::string::npos;
      operations = false;
    } else if (here && line.find("per-op statistics") != std::string::npos) {
      operations = true;
      calls = 0;
    } else if (operations) {  // "        READ: 12 12 0 ..."
      const size_t colon = line.find(": ");
      if (colon != std::string::npos && !line.substr(0, colon).ends_with(kLease))
        *calls += std::strtoull(line.c_str() + colon + 2, nullptr, 10);
    }
  }
  return calls;
}

Subject::Subject(std::string directory, std::optional<MountEntry> entry)
    : directory_(std::move(directory)), entry_(std::move(entry)) {
  contender_.name = directory_;
  if (!entry_) return;
  contender_.about = fmt::format("{} ({})", entry_->type, entry_->source);
  if (entry_->ours()) {
    contender_.role = Role::kOurs;
    const auto snapshot = take_snapshot(*entry_);
    if (!snapshot) return;
    kind_ = Kind::kOurs;
    daemon_ = static_cast<pid_t>(snapshot->pid);
    daemon_version_ = snapshot->version;
    server_ = snapshot->client.session.server_implementation;
    contender_.about = fmt::format("nfsrdma-fuse, {}, {}", entry_->source, transport_of(*snapshot));
  } else if (entry_->type == "nfs" || entry_->type == "nfs4") {
    kind_ = Kind::kKernel;
    contender_.about = fmt::format("the kernel's NFS client, {}, {}", entry_->source, entry_->fs_options);
  }
}

Outcome<Subject> Subject::find(const std::string& directory) {
  struct stat st {};
  if (stat(directory.c_str(), &st) != 0)
    return refuse(ToolExit::kFailed, fmt::format("{}: {}", directory, std::strerror(errno)));
  if (!S_ISDIR(st.st_mode)) return refuse(ToolExit::kFailed, directory + " is not a directory");
  const auto table = read_mountinfo();
  const MountPlace place = find_place(table, directory);
  return Subject(directory, place.entry == nullptr ? std::nullopt : std::optional(*place.entry));
}

Used Subject::used() const {
  Used out;
  if (kind_ == Kind::kOurs) {
    out.cpu_seconds = cpu_seconds_of(daemon_);
    if (const auto snapshot = take_snapshot(*entry_)) out.calls = calls_of(*snapshot);
  } else if (kind_ == Kind::kKernel) {
    out.calls = calls_in_mountstats(read_file("/proc/self/mountstats"), entry_->mount_point);
  }
  return out;
}

}  // namespace nfsrdma::cli::bench
