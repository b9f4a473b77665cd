// SPDX-License-Identifier: Apache-2.0
#include "client/core/process_credential.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "transport/runtime/user_ids.h"

namespace nfsrdma::client {

std::string machine_name() {
  char name[256] = "";
  if (gethostname(name, sizeof name - 1) != 0) return "localhost";
  return name;
}

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

}  // namespace nfsrdma::client
