// SPDX-License-Identifier: Apache-2.0
// UserIds: the IDs of this process' user namespace (user_namespaces(7)) and what they are outside.
//
// In a user namespace the kernel speaks of users by inner numbers: getuid(2), a FUSE request's caller, the
// owner that FUSE is told, /proc/<tid>/status. A server knows the outer ones only, and AUTH_SYS carries what
// this process may rightly claim: the IDs that /proc/self/{uid,gid}_map give it in the namespace around it.
// (What that one's IDs are further out, where it has a parent itself, the kernel does not tell from inside.)
// Outside of any, both are the same. Immutable; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "transport/runtime/proc.h"

namespace nfsrdma {

class IdMap {
 public:
  // The text of uid_map: lines of "inside outside count". Lines that are none are skipped, and so are ranges
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
  // Of the initial namespace.
  UserIds() = default;
  UserIds(IdMap users, IdMap groups);
  static UserIds of_this_process(const Proc& proc = Proc::ours());

  // False: every ID is itself outside.
  bool mapped() const { return mapped_; }

  // Whom the wire names. IDs that are nobody's outside become kNobody.
  uint32_t outer_user(uint32_t inner) const;
  uint32_t outer_group(uint32_t inner) const;
  // Groups without a number outside are left out: the kernel shows all those of the outside as kNobody.
  void make_outer(std::vector<uint32_t>& groups) const;
  // Whom the kernel is told. An owner without a number inside is kNobody, as on any other file system.
  uint32_t inner_user(uint32_t outer) const;
  uint32_t inner_group(uint32_t outer) const;

  // The kernel's overflowuid and overflowgid (proc_sys_kernel(5)).
  static constexpr uint32_t kNobody = 65534;

 private:
  bool mapped_ = false;
  IdMap users_, groups_;
};

}  // namespace nfsrdma
