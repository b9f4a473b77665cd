// SPDX-License-Identifier: Apache-2.0
// Playground: a directory of its own inside of one that is measured; gone with everything in it when this
// goes.
#pragma once

#include <cstdint>
#include <string>

#include "cli/outcome.h"

namespace nfsrdma::cli::bench {

class Playground {
 public:
  // Fails with ToolExit::kFailed when it cannot be made, or when the file system has no room for so many
  // bytes.
  static Outcome<Playground> make(const std::string& directory, uint64_t needed);
  Playground(Playground&& other) noexcept;
  Playground& operator=(Playground&&) = delete;
  Playground(const Playground&) = delete;
  ~Playground();

  std::string path(const std::string& name) const { return path_ + "/" + name; }

  // Removes it now; the line that says why that failed, or empty.
  std::string remove();

 private:
  explicit Playground(std::string path) : path_(std::move(path)) {}

  std::string path_;  // empty: removed, or moved from
};

}  // namespace nfsrdma::cli::bench
