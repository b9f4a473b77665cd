// SPDX-License-Identifier: Apache-2.0
#include "fuse/request_timeout.h"

#include <algorithm>
#include <charconv>

#include "transport/runtime/proc.h"

namespace nfsrdma::fuse {

namespace {

uint32_t seconds(std::string_view text) {
  uint32_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

std::string limit(const char* name) {
  return Proc::ours().read(std::string("sys/fs/fuse/") + name);
}

}  // namespace

uint32_t request_timeout(std::string_view default_text, std::string_view max_text) {
  const uint32_t usual = seconds(default_text), most = seconds(max_text);
  return usual != 0 && most != 0 ? std::min(usual, most) : std::max(usual, most);
}

std::optional<std::string> request_timeout_warning() {
  const uint32_t most = request_timeout(limit("default_request_timeout"), limit("max_request_timeout"));
  if (most == 0) return std::nullopt;
  return "the kernel ends this mount when the server, or a lock, is waited for longer than " +
         std::to_string(most) +
         " s; run 'sysctl fs.fuse.default_request_timeout=0 fs.fuse.max_request_timeout=0' and mount again";
}

}  // namespace nfsrdma::fuse
