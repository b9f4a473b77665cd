// SPDX-License-Identifier: Apache-2.0
// Playground: a private directory inside the measured one. The destructor removes it with all its contents.
#pragma once

#include <cstdint>
#include <string>

#include "cli/support/outcome.h"

namespace nfsrdma::cli::bench {

class Playground {
 public:
  // Fails with ToolExit::kFailed if the directory cannot be created, or if the file system has less than
  // `needed` bytes free.
  static Outcome<Playground> make(const std::string& directory, uint64_t needed);
  Playground(Playground&& other) noexcept;
  Playground& operator=(Playground&&) = delete;
  Playground(const Playground&) = delete;
  ~Playground();

  std::string path(const std::string& name) const { return path_ + "/" + name; }

  // Removes it now. Returns why that failed, or an empty text.
  std::string remove();

 private:
  explicit Playground(std::string path) : path_(std::move(path)) {}

  std::string path_;  // empty: removed, or moved from
};

}  // namespace nfsrdma::cli::bench
