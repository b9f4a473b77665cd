// SPDX-License-Identifier: Apache-2.0
#include "client/core/io_limits.h"

#include <algorithm>

namespace nfsrdma::client {
namespace {

constexpr uint32_t kLargestIo = 1u << 20;
constexpr uint32_t kLeastIo = 1024;
constexpr uint32_t kUsualIo = 4096;

}  // namespace

uint32_t io_size(uint32_t asked, uint64_t of_file_system, uint32_t of_message) {
  uint64_t most = kLargestIo;
  // A limit below kLeastIo is replaced by kUsualIo, as in the Linux client. The server may then transfer
  // fewer bytes than requested. With a limit of 1, for example, a large read would need a request for each
  // byte.
  if (of_file_system != 0) most = std::min(most, of_file_system < kLeastIo ? kUsualIo : of_file_system);
  most = std::min<uint64_t>(most, of_message);
  // The kernel requests whole pages, so the limit is rounded down to them. A smaller size that the user asked
  // for is not rounded.
  if (most >= 4096) most = most / 4096 * 4096;
  return static_cast<uint32_t>(asked != 0 ? std::min<uint64_t>(asked, most) : most);
}

uint64_t file_size_limit(uint64_t told) {
  return told == 0 ? INT64_MAX : std::clamp<uint64_t>(told, kLeastFileLimit, INT64_MAX);
}

}  // namespace nfsrdma::client
