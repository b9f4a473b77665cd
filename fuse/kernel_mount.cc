// SPDX-License-Identifier: Apache-2.0
#include "fuse/kernel_mount.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <vector>

extern char** environ;

namespace nfsrdma::fuse {

namespace {

// mountinfo(5) writes space, tab, newline and backslash as \ooo.
std::string unescape(std::string_view s) {
  std::string out;
  for (size_t i = 0; i < s.size(); ++i) {
    if (s[i] == '\\' && i + 3 < s.size()) {
      const int code = (s[i + 1] - '0') * 64 + (s[i + 2] - '0') * 8 + (s[i + 3] - '0');
      out.push_back(static_cast<char>(code));
      i += 3;
    } else {
      out.push_back(s[i]);
    }
  }
  return out;
}

std::vector<std::string_view> split(std::string_view line) {
  std::vector<std::string_view> fields;
  while (!line.empty()) {
    const size_t end = std::min(line.find(' '), line.size());
    if (end != 0) fields.push_back(line.substr(0, end));
    line.remove_prefix(std::min(end + 1, line.size()));
  }
  return fields;
}

std::string escape_option(std::string_view value) {
  std::string out;
  for (char c : value) {
    if (c == ',' || c == '\\') out.push_back('\\');
    out.push_back(c);
  }
  return out;
}

// Runs fusermount3. Returns its exit status and its output.
Result<std::pair<int, std::string>> run_fusermount(std::vector<std::string> arguments) {
  std::array<int, 2> fds{};
  if (::pipe2(fds.data(), O_CLOEXEC) != 0) return fail(system_error(errno, "pipe2"));
  std::vector<char*> argv;
  for (std::string& a : arguments) argv.push_back(a.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, fds[1], STDERR_FILENO);
  pid_t pid = 0;
  const int e = ::posix_spawnp(&pid, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  ::close(fds[1]);
  std::string said;
  std::array<char, 512> chunk{};
  for (ssize_t n = 0; e == 0 && (n = ::read(fds[0], chunk.data(), chunk.size())) > 0;) {
    said.append(chunk.data(), static_cast<size_t>(n));
  }
  ::close(fds[0]);
  if (e != 0) return fail(system_error(e, "fusermount3", "cannot be run; is the package fuse3 installed?"));
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  while (!said.empty() && said.back() == '\n') said.pop_back();
  return std::pair(WIFEXITED(status) ? WEXITSTATUS(status) : -1, said);
}

Result<std::string> resolved(const std::string& path) {
  std::array<char, PATH_MAX> absolute{};
  if (::realpath(path.c_str(), absolute.data()) == nullptr) {
    if (errno == ENOTCONN)
      return fail(system_error(ENOTCONN, "mount point",
                               path + " is a mount whose daemon died; run 'umount " + path + "'"));
    return fail(system_error(errno, "mount point", path));
  }
  struct stat st {};
  if (::stat(absolute.data(), &st) != 0) return fail(system_error(errno, "mount point", path));
  if (!S_ISDIR(st.st_mode)) return fail(system_error(ENOTDIR, "mount point", path));
  return std::string(absolute.data());
}

unsigned long mount_flags(const FuseOptions& o) {
  unsigned long flags = 0;
  if (o.read_only) flags |= MS_RDONLY;
  if (!o.dev) flags |= MS_NODEV;
  if (!o.suid) flags |= MS_NOSUID;
  if (!o.exec) flags |= MS_NOEXEC;
  if (o.sync) flags |= MS_SYNCHRONOUS;
  if (o.dirsync) flags |= MS_DIRSYNC;
  return flags;
}

}  // namespace

std::optional<KernelMount> find_mount(std::string_view mountinfo, std::string_view mount_point) {
  std::optional<KernelMount> found;
  while (!mountinfo.empty()) {
    const size_t end = std::min(mountinfo.find('\n'), mountinfo.size());
    const auto fields = split(mountinfo.substr(0, end));
    mountinfo.remove_prefix(std::min(end + 1, mountinfo.size()));
    if (fields.size() < 5 || unescape(fields[4]) != mount_point) continue;
    found = KernelMount{std::atoi(std::string(fields[0]).c_str()), std::string(fields[2]),
                        std::string(mount_point)};
  }
  return found;
}

std::optional<KernelMount> find_mount(const MountNamespace& where, const std::string& mount_point) {
  return find_mount(where.mountinfo(), mount_point);
}

Result<std::string> resolve_mount_point(const MountNamespace& where, const std::string& path) {
  return where.run([&path] { return resolved(path); });
}

Result<Fd> mount_kernel(const MountNamespace& where, const FuseOptions& o) {
  Fd device(::open("/dev/fuse", O_RDWR | O_CLOEXEC));
  if (!device) return fail(system_error(errno, "/dev/fuse"));
  std::string data = fmt::format("fd={},rootmode={:o},user_id={},group_id={}", device.get(), S_IFDIR,
                                 ::getuid(), ::getgid());
  if (o.allow_other || o.allow_root) data += ",allow_other";  // allow_root: libfuse refuses the other users
  if (o.default_permissions) data += ",default_permissions";
  if (o.max_read != 0) data += fmt::format(",max_read={}", o.max_read);
  const std::string type = std::string("fuse.") + kSubtype;
  const int error = where.run([&] {
    const int done =
        ::mount(o.source.c_str(), o.mount_point.c_str(), type.c_str(), mount_flags(o), data.c_str());
    return done == 0 ? 0 : errno;
  });
  if (error != 0) return fail(system_error(error, "mount", o.mount_point));
  return device;
}

std::string libfuse_options(const FuseOptions& o) {
  std::string s = "fsname=" + escape_option(o.source) + ",subtype=" + kSubtype;
  const auto add = [&s](bool condition, const char* name) {
    if (condition) s.append(",").append(name);
  };
  add(o.read_only, "ro");
  add(o.allow_other && !o.allow_root, "allow_other");
  add(o.allow_root, "allow_root");
  add(o.default_permissions, "default_permissions");
  add(o.dev, "dev");
  add(o.suid, "suid");
  add(!o.exec, "noexec");
  add(o.sync, "sync");
  add(o.dirsync, "dirsync");
  if (o.max_read != 0) s += ",max_read=" + std::to_string(o.max_read);
  return s;
}

Result<> unmount_kernel(const MountNamespace& where, const KernelMount& mount, bool lazy) {
  const auto now = find_mount(where, mount.mount_point);
  if (!now || now->id != mount.id) return {};
  if (::geteuid() == 0) {
    const int error = where.run([&] {
      return ::umount2(mount.mount_point.c_str(), UMOUNT_NOFOLLOW | (lazy ? MNT_DETACH : 0)) == 0 ? 0 : errno;
    });
    if (error == 0 || error == EINVAL) return {};  // EINVAL: not mounted any more
    return fail(system_error(error, "umount", mount.mount_point));
  }
  std::vector<std::string> arguments = {"fusermount3", "-u"};
  if (lazy) arguments.push_back("-z");
  arguments.push_back("--");
  arguments.push_back(mount.mount_point);
  auto ran = run_fusermount(std::move(arguments));
  if (!ran) return fail(std::move(ran).error());
  if (ran->first == 0) return {};
  const auto still = find_mount(where, mount.mount_point);
  if (!still || still->id != mount.id) return {};
  const bool busy = ran->second.find("busy") != std::string::npos;
  return fail(system_error(busy ? EBUSY : EPERM, "fusermount3", ran->second));
}

Result<> set_read_ahead(const KernelMount& mount, uint32_t kib) {
  const std::string path = "/sys/class/bdi/" + mount.device + "/read_ahead_kb";
  const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return fail(system_error(errno, "read_ahead_kb", path));
  const std::string text = std::to_string(kib);
  const ssize_t n = ::write(fd, text.data(), text.size());
  const int e = errno;
  ::close(fd);
  if (n < 0) return fail(system_error(e, "read_ahead_kb", path));
  return {};
}

}  // namespace nfsrdma::fuse
