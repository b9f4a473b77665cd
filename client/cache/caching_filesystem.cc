// SPDX-License-Identifier: Apache-2.0
// What is known of a mount as a whole.
#include "client/cache/caching_filesystem.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "transport/runtime/user_ids.h"

namespace nfsrdma::client {
namespace {

constexpr uint32_t kLargestIo = 1u << 20;
constexpr uint32_t kLeastIo = 1024;
constexpr uint32_t kUsualIo = 4096;

rpc::CredentialPtr process_credential() {
  std::vector<gid_t> groups(static_cast<size_t>(std::max(0, getgroups(0, nullptr))));
  const int n = getgroups(static_cast<int>(groups.size()), groups.data());
  groups.resize(static_cast<size_t>(std::max(0, n)));
  std::vector<uint32_t> outer(groups.begin(), groups.end());
  const UserIds ids = UserIds::of_this_process();
  ids.make_outer(outer);
  return std::make_shared<rpc::Credential>(machine_name(), ids.outer_user(geteuid()),
                                           ids.outer_group(getegid()), std::move(outer));
}

}  // namespace

std::string machine_name() {
  char name[256] = "";
  if (gethostname(name, sizeof name - 1) != 0) return "localhost";
  return name;
}

uint32_t io_size(uint32_t asked, uint64_t of_file_system, uint32_t of_message) {
  uint64_t most = kLargestIo;
  // A server that says less is asked for more than it gives (as Linux' client does): a request for each of
  // the bytes of a large read would be the end of both.
  if (of_file_system != 0) most = std::min(most, of_file_system < kLeastIo ? kUsualIo : of_file_system);
  most = std::min<uint64_t>(most, of_message);
  // Whole pages, as the kernel asks, where nobody has asked for something else.
  if (most >= 4096) most = most / 4096 * 4096;
  return static_cast<uint32_t>(asked != 0 ? std::min<uint64_t>(asked, most) : most);
}

uint64_t file_size_limit(uint64_t told) {
  return told == 0 ? INT64_MAX : std::clamp<uint64_t>(told, kLeastFileLimit, INT64_MAX);
}

CachingFilesystem::CachingFilesystem(LoopPool& loops, BufferPool& buffers, ClientOptions options,
                                     CachedNodeTable& table)
    : loops_(loops),
      buffers_(buffers),
      options_(std::move(options)),
      machine_(process_credential()),
      held_timer_(loops_[0]),
      table_(table),
      ahead_on_(loops.size()) {}

int CachingFilesystem::soft_errno() const {
  return options_.soft_error_timedout ? ETIMEDOUT : EIO;
}

Whereabouts CachingFilesystem::whereabouts(const NodeRef& node) const {
  Whereabouts at;
  at.ino = known_attributes(node).ino;
  if (auto name = table_.names().name_of(*node.get())) {
    at.directory = std::move(name->directory);
    at.name = std::move(name->name);
  }
  return at;
}

bool CachingFilesystem::synchronous(int flags) const {
  return options_.sync || options_.noac || (flags & (O_SYNC | O_DSYNC | O_DIRECT)) != 0;
}

CacheStatistics CachingFilesystem::cache_statistics() const {
  CacheStatistics s;
  s.nodes = table_.size();
  s.names = table_.names().size();
  s.attribute_hits = attribute_hits_;
  s.attribute_misses = attribute_misses_;
  s.name_hits = name_hits_;
  s.name_misses = name_misses_;
  s.dirty_bytes = written_.unanswered;
  s.uncommitted_bytes = written_.uncommitted;
  s.refused_bytes = refused_bytes_;
  s.room_errors = room_errors_;
  const DataCache::Numbers data = table_.data().numbers();
  s.data_bytes = data.bytes;
  s.data_limit_bytes = table_.data().limit();
  s.data_hits = data.hits;
  s.data_hit_bytes = data.hit_bytes;
  s.ahead_bytes = data.filled_bytes;
  s.ahead_wasted_bytes = data.wasted_bytes;
  s.ahead_refused_bytes = data.refused_bytes;
  s.evicted_bytes = data.evicted_bytes;
  return s;
}

}  // namespace nfsrdma::client
