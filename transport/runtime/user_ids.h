// SPDX-License-Identifier: Apache-2.0
// UserIds: the user and group IDs of this process' user namespace (user_namespaces(7)) and their outer
// equivalents.
//
// In a user namespace the kernel uses inner IDs: in getuid(2), for the caller of a FUSE request, for the
// owner that FUSE reports, in /proc/<tid>/status. A server knows only outer IDs. AUTH_SYS carries the IDs
// that this process may rightly claim: those that /proc/self/{uid,gid}_map give it in the parent namespace.
// (If the parent namespace is itself mapped, the kernel does not tell from inside what its IDs are further
// out.) In the initial namespace inner and outer IDs are the same. Immutable; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "transport/runtime/proc.h"

namespace nfsrdma {

class IdMap {
 public:
  // Parses the text of uid_map or gid_map: lines of "inside outside count". Skips other lines, and ranges
  // that go beyond the last ID.
  static IdMap parse(std::string_view text);

  bool identity() const;
  std::optional<uint32_t> outer(uint32_t inner) const;
  std::optional<uint32_t> inner(uint32_t outer) const;

 private:
  struct Range {
    uint32_t inner = 0;
    uint32_t outer = 0;
    uint32_t count = 0;
  };
  std::vector<Range> ranges_;
};

class UserIds {
 public:
  // For the initial namespace.
  UserIds() = default;
  UserIds(IdMap users, IdMap groups);
  static UserIds of_this_process(const Proc& proc = Proc::ours());

  // False: inner and outer IDs are the same.
  bool mapped() const { return mapped_; }

  // The ID for the wire. An ID without an outer equivalent becomes kNobody.
  uint32_t outer_user(uint32_t inner) const;
  uint32_t outer_group(uint32_t inner) const;
  // Leaves out groups without an outer equivalent: the kernel shows all groups from outside the namespace as
  // kNobody.
  void make_outer(std::vector<uint32_t>& groups) const;
  // The ID for the kernel. An owner without an inner ID becomes kNobody, as on any other file system.
  uint32_t inner_user(uint32_t outer) const;
  uint32_t inner_group(uint32_t outer) const;

  // The kernel's overflowuid and overflowgid (proc_sys_kernel(5)).
  static constexpr uint32_t kNobody = 65534;

 private:
  bool mapped_ = false;
  IdMap users_, groups_;
};

}  // namespace nfsrdma
