// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/fabric/support/rdma_device.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>

#include <memory>

#include "transport/fabric/verbs/verbs.h"

namespace nfsrdma::test {
namespace {

std::string text_of(const sockaddr* address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address->sa_family == AF_INET) {
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, text, sizeof(text));
  } else {
    inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr, text, sizeof(text));
  }
  return text;
}

bool link_local(const sockaddr* address) {
  return address->sa_family == AF_INET6 &&
         IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
}

// The device to which the connection manager binds this address; empty: none.
std::string device_of(rdma_event_channel* channel, sockaddr* address) {
  rdma_cm_id* id = nullptr;
  if (rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP) != 0) return {};
  std::string name;
  if (rdma_bind_addr(id, address) == 0 && id->verbs != nullptr) name = ibv_get_device_name(id->verbs->device);
  rdma_destroy_id(id);
  return name;
}

}  // namespace

RdmaDevice find_rdma_device(int family) {
  RdmaDevice found;
  found.lacking = fabric::verbs::missing({});
  if (!found.lacking.empty()) return found;
  const std::unique_ptr<rdma_event_channel, decltype(&rdma_destroy_event_channel)> channel(
      rdma_create_event_channel(), &rdma_destroy_event_channel);
  ifaddrs* list = nullptr;
  if (!channel || getifaddrs(&list) != 0) {
    found.lacking = "no RDMA connection manager (rdma_ucm)";
    return found;
  }
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, &freeifaddrs);
  for (const ifaddrs* i = list; i != nullptr && found.name.empty(); i = i->ifa_next) {
    if (i->ifa_addr == nullptr || i->ifa_addr->sa_family != family || link_local(i->ifa_addr)) continue;
    found.name = device_of(channel.get(), i->ifa_addr);
    found.address = text_of(i->ifa_addr);
  }
  if (found.name.empty())
    found.lacking =
        family == AF_INET ? "no RDMA device has an IPv4 address" : "no RDMA device has an IPv6 address";
  return found;
}

}  // namespace nfsrdma::test
