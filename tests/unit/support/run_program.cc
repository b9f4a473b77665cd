// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/support/run_program.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

#include "transport/runtime/fd.h"

namespace nfsrdma::test {

namespace {

// A file without a name: unlike a pipe it takes any amount without a reader.
Fd unnamed_file(std::string_view content) {
  Fd file(::memfd_create("run_program", MFD_CLOEXEC));
  if (::write(file.get(), content.data(), content.size()) != static_cast<ssize_t>(content.size()))
    return Fd();
  ::lseek(file.get(), 0, SEEK_SET);
  return file;
}

std::string read_back(const Fd& file) {
  std::string content;
  std::array<char, 4096> piece;
  for (off_t at = 0;; at = static_cast<off_t>(content.size())) {
    const ssize_t got = ::pread(file.get(), piece.data(), piece.size(), at);
    if (got <= 0) return content;
    content.append(piece.data(), static_cast<size_t>(got));
  }
}

}  // namespace

std::string find_program(std::string_view name) {
  const char* path = std::getenv("PATH");
  std::string directories = path != nullptr ? path : "";
  directories += ":/usr/local/sbin:/usr/sbin:/sbin";
  for (size_t at = 0; at < directories.size();) {
    const size_t end = std::min(directories.find(':', at), directories.size());
    const std::string candidate = directories.substr(at, end - at) + "/" + std::string(name);
    if (::access(candidate.c_str(), X_OK) == 0) return candidate;
    at = end + 1;
  }
  return {};
}

Finished run_program(std::vector<std::string> argv, std::string_view input) {
  const std::string path = find_program(argv[0]);
  const Fd in = unnamed_file(input);
  const Fd out = unnamed_file({});
  if (path.empty() || !in || !out) return {.status = -1, .output = argv[0] + " cannot start"};

  std::vector<char*> arguments;
  for (std::string& argument : argv) arguments.push_back(argument.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in.get(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out.get(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out.get(), STDERR_FILENO);
  pid_t child = -1;
  const int error = ::posix_spawn(&child, path.c_str(), &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return {.status = -1, .output = path + " cannot start"};

  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return {.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1, .output = read_back(out)};
}

}  // namespace nfsrdma::test
