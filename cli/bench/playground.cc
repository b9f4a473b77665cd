// SPDX-License-Identifier: Apache-2.0
#include "cli/bench/playground.h"

#include <fmt/core.h>
#include <sys/statvfs.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

namespace nfsrdma::cli::bench {

Outcome<Playground> Playground::make(const std::string& directory, uint64_t needed) {
  struct statvfs room {};
  const auto failed = [&](const char* what) {
    return refuse(ToolExit::kFailed, fmt::format("{}: {}: {}", directory, what, std::strerror(errno)));
  };
  if (statvfs(directory.c_str(), &room) != 0) return failed("its size");
  const uint64_t available = uint64_t{room.f_bavail} * room.f_frsize;
  // A file system that does not report its size has zero blocks.
  if (room.f_blocks != 0 && available < needed) {
    return refuse(ToolExit::kFailed,
                  fmt::format("{}: {} MiB are free, {} MiB are needed; --size and --files say how much",
                              directory, available >> 20, (needed >> 20) + 1));
  }
  std::string path = directory + "/.nfsrdma-bench-XXXXXX";
  if (mkdtemp(path.data()) == nullptr) return failed("making a directory in it");
  return Playground(std::move(path));
}

Playground::Playground(Playground&& other) noexcept : path_(std::exchange(other.path_, {})) {}

Playground::~Playground() {
  remove();
}

std::string Playground::remove() {
  if (path_.empty()) return {};
  const std::string path = std::exchange(path_, {});
  std::error_code error;
  std::filesystem::remove_all(path, error);
  return error ? fmt::format("{} could not be removed: {}", path, error.message()) : std::string();
}

}  // namespace nfsrdma::cli::bench
