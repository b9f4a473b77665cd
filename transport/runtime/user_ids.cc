// SPDX-License-Identifier: Apache-2.0
#include "transport/runtime/user_ids.h"

#include <algorithm>
#include <charconv>

namespace nfsrdma {
namespace {

bool take_number(std::string_view& line, uint32_t& value) {
  line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
  const auto [stop, error] = std::from_chars(line.data(), line.data() + line.size(), value);
  line.remove_prefix(static_cast<size_t>(stop - line.data()));
  return error == std::errc{};
}

}  // namespace

IdMap IdMap::parse(std::string_view text) {
  IdMap map;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    Range r;
    if (take_number(line, r.inner) && take_number(line, r.outer) && take_number(line, r.count) &&
        r.count != 0 && r.count - 1 <= UINT32_MAX - std::max(r.inner, r.outer))
      map.ranges_.push_back(r);
  }
  return map;
}

bool IdMap::identity() const {
  return ranges_.size() == 1 && ranges_[0].inner == 0 && ranges_[0].outer == 0 &&
         ranges_[0].count == UINT32_MAX;
}

std::optional<uint32_t> IdMap::outer(uint32_t inner) const {
  for (const Range& r : ranges_) {
    if (inner >= r.inner && inner - r.inner < r.count) return r.outer + (inner - r.inner);
  }
  return std::nullopt;
}

std::optional<uint32_t> IdMap::inner(uint32_t outer) const {
  for (const Range& r : ranges_) {
    if (outer >= r.outer && outer - r.outer < r.count) return r.inner + (outer - r.outer);
  }
  return std::nullopt;
}

UserIds::UserIds(IdMap users, IdMap groups) : users_(std::move(users)), groups_(std::move(groups)) {
  mapped_ = !users_.identity() || !groups_.identity();
}

UserIds UserIds::of_this_process(const Proc& proc) {
  // A kernel without user namespaces has no such file.
  if (!proc.has("self/uid_map")) return {};
  return {IdMap::parse(proc.read("self/uid_map")), IdMap::parse(proc.read("self/gid_map"))};
}

uint32_t UserIds::outer_user(uint32_t inner) const {
  return mapped_ ? users_.outer(inner).value_or(kNobody) : inner;
}

uint32_t UserIds::outer_group(uint32_t inner) const {
  return mapped_ ? groups_.outer(inner).value_or(kNobody) : inner;
}

void UserIds::make_outer(std::vector<uint32_t>& groups) const {
  if (!mapped_) return;
  std::erase_if(groups, [this](uint32_t& group) {
    const auto outer = groups_.outer(group);
    group = outer.value_or(kNobody);
    return !outer;
  });
}

uint32_t UserIds::inner_user(uint32_t outer) const {
  return mapped_ ? users_.inner(outer).value_or(kNobody) : outer;
}

uint32_t UserIds::inner_group(uint32_t outer) const {
  return mapped_ ? groups_.inner(outer).value_or(kNobody) : outer;
}

}  // namespace nfsrdma
