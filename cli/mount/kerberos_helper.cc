// SPDX-License-Identifier: Apache-2.0
#include "cli/mount/kerberos_helper.h"

#include <fmt/core.h>
#include <linux/capability.h>
#include <unistd.h>

#include <cstring>
#include <utility>

#include "cli/mount/confinement.h"
#include "transport/security/helper_keeper.h"
#include "transport/security/helper_link.h"

namespace nfsrdma::cli {
namespace {

bool give_up_rights() {
  constexpr uint64_t kKept = uint64_t{1} << CAP_SETUID | uint64_t{1} << CAP_SETGID | uint64_t{1} << CAP_KILL;
  return geteuid() != 0 || drop_capabilities(kKept).has_value();
}

}  // namespace

Outcome<std::shared_ptr<security::TokenSource>> start_kerberos_helper() {
  auto socket =
      security::start_keeper({.give_up_rights = give_up_rights, .find = security::find_credentials});
  if (socket) return std::make_shared<security::HelperLink>(*std::move(socket));
  return refuse(MountExit::kSystem, fmt::format("Kerberos helper: {}: {}", socket.error().op,
                                                std::strerror(socket.error().errnum)));
}

}  // namespace nfsrdma::cli
