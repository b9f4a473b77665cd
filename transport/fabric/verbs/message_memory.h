// SPDX-License-Identifier: Apache-2.0
// MessageMemory: equal pieces of registered memory, for the Sends or the Receives of one endpoint.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

#include "transport/fabric/verbs/domain.h"

namespace nfsrdma::fabric::verbs {

class MessageMemory {
 public:
  MessageMemory() = default;
  static Result<MessageMemory> make(Domain& domain, unsigned pieces, size_t bytes);

  size_t piece_bytes() const { return bytes_; }
  unsigned pieces() const { return pieces_; }
  MutableBytes piece(unsigned i) const { return {memory_.get() + i * stride_, bytes_}; }
  ibv_sge sge(unsigned i, size_t used) const {
    return {reinterpret_cast<uintptr_t>(memory_.get() + i * stride_), static_cast<uint32_t>(used),
            registration_.lkey()};
  }

 private:
  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };
  unsigned pieces_ = 0;
  size_t bytes_ = 0;
  size_t stride_ = 0;
  std::unique_ptr<std::byte, Free> memory_;
  Registration registration_;  // destroyed before the memory
};

}  // namespace nfsrdma::fabric::verbs
