// SPDX-License-Identifier: Apache-2.0
#include "client/core/names/listing.h"

#include <algorithm>
#include <utility>

#include "client/core/names/valid_name.h"
#include "transport/runtime/log.h"

namespace nfsrdma::client {
namespace {

constexpr size_t kLongestName = 1024;  // FUSE_NAME_MAX of the kernels with the smallest limit

}  // namespace

Result<> Listing::answer(uint64_t cookie, bool with_attributes, std::vector<ListedEntry> answered, bool end,
                         NameBelief of) {
  if (answered.empty() && !end)
    return fail(system_error(EIO, "READDIR", "the server sent neither entries nor the end"));
  const bool reserved = std::any_of(answered.begin(), answered.end(),
                                    [](const ListedEntry& e) { return e.cookie <= kAfterDotDot; });
  if (reserved) return fail(system_error(EIO, "READDIR", "the server uses reserved cookies"));
  drop_impossible(answered, end);
  entries = std::move(answered);
  eof = end;
  from = cookie;
  plus = with_attributes;
  filled = true;
  delivered = 0;
  belief = of;
  drop_repeats();
  return {};
}

// The kernel rejects a reply from the first impossible name on, and would never send FORGET for the entries
// behind it.
void Listing::drop_impossible(std::vector<ListedEntry>& answered, bool end) {
  beyond = 0;
  const uint64_t last = answered.empty() ? 0 : answered.back().cookie;
  const size_t dropped = std::erase_if(
      answered, [](const ListedEntry& e) { return e.name.size() > kLongestName || !valid_name(e.name); });
  if (dropped == 0) return;
  static log::Throttle throttle;
  if (throttle.hit() != 0) log::warn("the server lists names that no file can have; they are left out");
  if (!answered.empty()) {
    answered.back().cookie = last;
  } else if (!end) {
    beyond = last;
  }
}

bool Listing::end_at(uint64_t cookie) {
  from = cookie;
  eof = filled = true;
  return !std::exchange(circle_logged, true);
}

}  // namespace nfsrdma::client
