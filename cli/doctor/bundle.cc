// SPDX-License-Identifier: Apache-2.0
#include "cli/doctor/bundle.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <pwd.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>

#include "cli/doctor/gather.h"
#include "cli/doctor/name_filter.h"
#include "cli/options/source.h"
#include "cli/support/mountinfo.h"
#include "transport/net/endpoint.h"
#include "transport/runtime/fd.h"

extern char** environ;

namespace nfsrdma::cli::doctor {
namespace {

constexpr std::streamoff kLogTail = 256 << 10;
constexpr const char* kFolder = "nfsrdma-fuse-report";

using Files = std::map<std::string, std::string>;

tl::unexpected<Failure> failed(const std::string& what, int error) {
  return refuse(ToolExit::kFailed, fmt::format("{}: {}", what, std::strerror(error)));
}

// The end of a log file, beginning at the start of a line.
std::string tail(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return fmt::format("{}: {}\n", path, std::strerror(errno));
  const std::streamoff size = file.tellg();
  file.seekg(std::max<std::streamoff>(size - kLogTail, 0));
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (size > kLogTail) text.erase(0, std::min(text.find('\n'), text.size() - 1) + 1);
  return text;
}

// The format of proc_pid_mountinfo(5) without its optional fields.
std::string mount_lines() {
  std::string out;
  for (const MountEntry& e : read_mountinfo()) {
    if (e.ours())
      out += fmt::format("{} {} {}:{} {} {} {} - {} {} {}\n", e.id, e.parent, e.major, e.minor, e.root,
                         e.mount_point, e.options, e.type, e.source, e.fs_options);
  }
  return out;
}

std::string limits() {
  return contents("/proc/self/limits");
}

std::string system_text(const Facts& facts) {
  utsname name{};
  uname(&name);
  const MachineFacts& m = facts.machine;
  std::string text = fmt::format("nfsrdma-fuse {}\n{} {} {}\nuser {}\nmemory {} bytes, {} available\n",
                                 facts.version, name.sysname, name.release, name.machine,
                                 m.root ? "root" : "not root", m.memory_bytes, m.memory_available_bytes);
  for (const auto& port : m.rdma_ports)
    text += fmt::format("RDMA device {} port {}: {} {} MTU {} of {}\n", port.device, port.port, port.state,
                        port.link_layer, port.mtu, port.largest_mtu);
  std::ifstream release("/etc/os-release");
  for (std::string line; std::getline(release, line);) {
    if (line.starts_with("PRETTY_NAME=")) text += line + "\n";
  }
  return text;
}

void add_source(NameFilter& filter, const std::string& text) {
  const auto source = parse_server(text);
  if (!source) return;
  filter.add("server", source->host);
  filter.add("export", source->path);
}

NameFilter filter_for(const Facts& facts) {
  NameFilter filter(words_of_program("/proc/self/exe"));
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  filter.add("machine", host);
  if (const passwd* user = getpwuid(geteuid()); user != nullptr && user->pw_uid != 0) {
    filter.add("user", user->pw_name);
    filter.add("home", user->pw_dir);
  }
  filter.add("domain", facts.machine.idmap_domain);
  if (facts.server) {
    filter.add("server", facts.server->host);
    filter.add("export", facts.server->path);
    filter.add("server", facts.server->reverse);
    for (const std::string& address : facts.server->addresses) filter.add("address", address);
    if (facts.server->session) {
      for (const std::string& name : facts.server->session->names) filter.add("name", name);
    }
  }
  for (const MountEntry& entry : read_mountinfo()) {
    if (!entry.ours()) continue;
    filter.add("mount", entry.mount_point);
    add_source(filter, entry.source);
    filter.add("source", entry.source);  // the whole source, if parse_server() does not accept it
  }
  for (const MountFacts& m : facts.mounts) {
    filter.add("log", m.log_file);
    if (!m.snapshot) continue;
    filter.add("server", m.snapshot->client.session.server_owner);
    filter.add("server", m.snapshot->client.session.server_scope);
    for (const rpc::TransportStatus& t : m.snapshot->client.transports) {
      filter.add("address", net::address_in(t.peer));
      filter.add("address", net::address_in(t.local));
    }
  }
  return filter;
}

Files make_files(const Facts& facts, const std::vector<Result>& results, bool with_names) {
  std::optional<NameFilter> filter;
  if (!with_names) filter.emplace(filter_for(facts));
  const auto text = [&](const std::string& in) { return filter ? filter->text(in) : in; };
  const auto json = [&](const Json& in) {
    return (filter ? filter->json(in) : in).dump(2, ' ', true, Json::error_handler_t::replace) + '\n';
  };
  Files files;
  files["doctor.txt"] = text(text_of(results));
  files["doctor.json"] = json(json_of(facts, results));
  files["system.txt"] = text(system_text(facts));
  files["limits.txt"] = limits();
  files["mounts.txt"] = text(mount_lines());
  unsigned number = 0;
  for (const MountFacts& m : facts.mounts) {
    const std::string name = fmt::format("mount-{}", ++number);
    if (m.snapshot) {
      files[name + "-status.txt"] = text(status_text(*m.snapshot));
      files[name + "-stats.json"] = json(to_json(*m.snapshot));
    } else {
      files[name + "-status.txt"] = text(m.may_ask ? m.error + "\n" : "another user's\n");
    }
    if (!m.log_file.empty()) files[name + "-log.txt"] = text(tail(m.log_file));
  }
  return files;
}

// A temporary directory. The destructor removes it.
class Scratch {
 public:
  Scratch() {
    const char* place = std::getenv("TMPDIR");
    path_ = fmt::format("{}/nfsrdma-fuse.XXXXXX", place != nullptr ? place : "/tmp");
    if (mkdtemp(path_.data()) == nullptr) path_.clear();
  }
  ~Scratch() {
    std::error_code unknown;
    if (!path_.empty()) std::filesystem::remove_all(path_, unknown);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

Outcome<> write_files(const std::string& folder, const Files& files) {
  if (mkdir(folder.c_str(), 0700) != 0) return failed(folder, errno);
  for (const auto& [name, text] : files) {
    const std::string path = folder + "/" + name;
    std::ofstream file(path, std::ios::binary);
    file << text;
    if (!file.flush()) return failed(path, errno);
  }
  return {};
}

Outcome<> run_tar(const std::string& scratch, const Fd& out) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, out.get(), STDOUT_FILENO);
  const char* argv[] = {"tar", "--create",      "--gzip", "--owner=0", "--group=0", "--numeric-owner",
                        "-C",  scratch.c_str(), kFolder,  nullptr};
  pid_t pid = 0;
  const int error = posix_spawnp(&pid, "tar", &actions, nullptr, const_cast<char* const*>(argv), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return failed("tar", error);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    return refuse(ToolExit::kFailed, fmt::format("tar: status {}", status));
  return {};
}

}  // namespace

Outcome<> write_bundle(const std::string& file, bool with_names, const Facts& facts,
                       const std::vector<Result>& results) {
  const Fd out(open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!out) return failed(file, errno);
  const Scratch scratch;
  Outcome<> done = scratch.path().empty()
                       ? Outcome<>(failed("temporary directory", errno))
                       : write_files(scratch.path() + "/" + kFolder, make_files(facts, results, with_names));
  if (done) done = run_tar(scratch.path(), out);
  if (done && fsync(out.get()) != 0) done = failed(file, errno);
  if (!done) unlink(file.c_str());
  return done;
}

}  // namespace nfsrdma::cli::doctor
