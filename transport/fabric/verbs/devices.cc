// SPDX-License-Identifier: Apache-2.0
#include "transport/fabric/verbs/devices.h"

#include <fmt/core.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "transport/fabric/verbs/errors.h"
#include "transport/fabric/verbs/verbs.h"

namespace nfsrdma::fabric::verbs {
namespace {

constexpr size_t kMostGids = 1024;

ibv_context* context_of(ibv_context** contexts, const std::string& device) {
  for (; contexts != nullptr && *contexts != nullptr; ++contexts) {
    if (device == ibv_get_device_name((*contexts)->device)) return *contexts;
  }
  return nullptr;
}

std::vector<ibv_gid_entry> gids_of(ibv_context* context) {
  std::vector<ibv_gid_entry> gids(kMostGids);
  const ssize_t n = ibv_query_gid_table(context, gids.data(), gids.size(), 0);
  gids.resize(n > 0 ? static_cast<size_t>(n) : 0);
  return gids;
}

bool is_ip(const ibv_gid_entry& gid) {
  return gid.gid_type != IBV_GID_TYPE_IB;
}

}  // namespace

std::vector<std::string> devices() {
  std::vector<std::string> names;
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  if (list == nullptr) return names;
  for (int i = 0; i < count; ++i) names.emplace_back(ibv_get_device_name(list[i]));
  ibv_free_device_list(list);
  return names;
}

std::string missing(const Options& wanted) {
  const std::vector<std::string> there = devices();
  if (there.empty()) return "this machine has no RDMA device";
  if (wanted.device.empty() || std::ranges::find(there, wanted.device) != there.end()) return {};
  std::string names;
  for (const std::string& name : there) names += (names.empty() ? "" : ", ") + name;
  return fmt::format("this machine has no RDMA device {} but {}", wanted.device, names);
}

std::optional<net::Endpoint> address_of_gid(const uint8_t (&gid)[16], unsigned interface) {
  in6_addr address{};
  std::memcpy(&address, gid, sizeof(address));
  net::Endpoint e;
  if (IN6_IS_ADDR_V4MAPPED(&address)) {
    auto& v4 = reinterpret_cast<sockaddr_in&>(e.address);
    v4.sin_family = AF_INET;
    std::memcpy(&v4.sin_addr, gid + 12, sizeof(v4.sin_addr));
    e.length = sizeof(v4);
    return e;
  }
  if (IN6_IS_ADDR_UNSPECIFIED(&address)) return std::nullopt;
  auto& v6 = reinterpret_cast<sockaddr_in6&>(e.address);
  v6.sin6_family = AF_INET6;
  v6.sin6_addr = address;
  if (IN6_IS_ADDR_LINKLOCAL(&address)) v6.sin6_scope_id = interface;
  e.length = sizeof(v6);
  return e;
}

Result<net::Endpoints> source_addresses(const Options& options, int family) {
  net::Endpoints found;
  if (options.device.empty()) return found;
  int count = 0;
  const std::unique_ptr<ibv_context*, decltype(&rdma_free_devices)> contexts(rdma_get_devices(&count),
                                                                             &rdma_free_devices);
  ibv_context* context = context_of(contexts.get(), options.device);
  if (context == nullptr) return fail(rdma_error(ENODEV, "connect", missing(options)));
  bool seen = false;
  for (const ibv_gid_entry& gid : gids_of(context)) {
    if (options.port != 0 && gid.port_num != options.port) continue;
    if (options.gid_index && gid.gid_index != *options.gid_index) continue;
    seen = true;
    const auto address = is_ip(gid) ? address_of_gid(gid.gid.raw, gid.ndev_ifindex) : std::nullopt;
    if (address && address->family() == family) found.push_back(*address);
  }
  if (!options.gid_index || !found.empty()) return found;
  return fail(rdma_error(ENODEV, "connect",
                         fmt::format("GID {} of {} {}", *options.gid_index, options.device,
                                     seen ? "is no address of the server's family" : "is not there")));
}

}  // namespace nfsrdma::fabric::verbs
