// SPDX-License-Identifier: Apache-2.0
#include "transport/fabric/verbs/message_memory.h"

#include <cerrno>

#include "transport/fabric/verbs/errors.h"

namespace nfsrdma::fabric::verbs {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kCacheLine = 64;

size_t rounded_up(size_t bytes, size_t to) {
  return (bytes + to - 1) / to * to;
}

}  // namespace

Result<MessageMemory> MessageMemory::make(Domain& domain, unsigned pieces, size_t bytes) {
  MessageMemory m;
  m.pieces_ = pieces;
  m.bytes_ = bytes;
  m.stride_ = rounded_up(bytes, kCacheLine);
  const size_t all = rounded_up(pieces * m.stride_, kPage);
  m.memory_.reset(static_cast<std::byte*>(std::aligned_alloc(kPage, all)));
  if (!m.memory_) return fail(rdma_error(ENOMEM, "connect", "message buffers"));
  Result<Registration> registered = domain.own({m.memory_.get(), all}, IBV_ACCESS_LOCAL_WRITE);
  if (!registered) return fail(std::move(registered).error());
  m.registration_ = std::move(*registered);
  return m;
}

}  // namespace nfsrdma::fabric::verbs
