#include "filer/tree/acl.h"

#include "filer/tree/access.h"

namespace nfsrdma::filer {

using namespace nfs4;  // NOLINT: constants

const std::pair<uint32_t, uint32_t> kPermissionAces[3] = {
    {kMayRead, ACE4_READ_DATA}, {kMayWrite, ACE4_WRITE_DATA | ACE4_APPEND_DATA}, {kMayExecute, ACE4_EXECUTE}};

namespace {

uint32_t mask_of(uint32_t permissions) {
  uint32_t mask = 0;
  for (const auto& [permission, ace] : kPermissionAces)
    if ((permissions & permission) != 0) mask |= ace;
  return mask;
}

nfsace4 allowing(uint32_t permissions, uint32_t flag, const char* who) {
  return {ACE4_ACCESS_ALLOWED_ACE_TYPE, flag, mask_of(permissions) | ACE4_READ_ATTRIBUTES | ACE4_READ_ACL,
          who};
}

}  // namespace

std::vector<nfsace4> acl_of_mode(const Node& node) {
  if (node.fs->everybody) return {allowing(permissions(node, *node.fs->everybody), 0, "EVERYONE@")};
  const uint32_t owner = node.mode >> 6 & 7, group = node.mode >> 3 & 7, others = node.mode & 7;
  std::vector<nfsace4> acl;
  const auto add = [&acl](uint32_t permissions, uint32_t denied, uint32_t flag, const char* who) {
    if (denied != 0) acl.push_back({ACE4_ACCESS_DENIED_ACE_TYPE, flag, mask_of(denied), who});
    acl.push_back(allowing(permissions, flag, who));
  };
  add(owner, (group | others) & ~owner, 0, "OWNER@");
  add(group, others & ~group, ACE4_IDENTIFIER_GROUP, "GROUP@");
  add(others, 0, 0, "EVERYONE@");
  return acl;
}

}  // namespace nfsrdma::filer
