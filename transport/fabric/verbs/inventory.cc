// SPDX-License-Identifier: Apache-2.0
#include "transport/fabric/verbs/inventory.h"

#include <infiniband/verbs.h>

#include <cerrno>
#include <cstdint>
#include <memory>

#include "transport/fabric/verbs/open_device.h"

namespace nfsrdma::fabric::verbs {
namespace {

std::string link_name(uint8_t layer) {
  if (layer == IBV_LINK_LAYER_ETHERNET) return "Ethernet";
  return layer == IBV_LINK_LAYER_INFINIBAND ? "InfiniBand" : "an unknown link";
}

void add_ports(ibv_device* device, std::vector<PortReport>& out) {
  const std::string name = ibv_get_device_name(device);
  const std::unique_ptr<ibv_context, int (*)(ibv_context*)> context(ibv_open_device(device),
                                                                    &ibv_close_device);
  ibv_device_attr attributes{};
  if (!context || ibv_query_device(context.get(), &attributes) != 0) {
    PortReport& report = out.emplace_back();
    report.device = name;
    report.error = errno != 0 ? errno : EIO;
    return;
  }
  for (unsigned number = 1; number <= attributes.phys_port_cnt; ++number) {
    PortReport& report = out.emplace_back();
    report.device = name;
    report.port = number;
    ibv_port_attr port{};
    report.error = ibv_query_port(context.get(), static_cast<uint8_t>(number), &port);
    if (report.error != 0) continue;
    report.state = ibv_port_state_str(port.state);
    report.active = port.state == IBV_PORT_ACTIVE;
    report.link_layer = link_name(port.link_layer);
    report.mtu = mtu_bytes(port.active_mtu);
    report.largest_mtu = mtu_bytes(port.max_mtu);
  }
}

}  // namespace

std::vector<PortReport> inventory() {
  std::vector<PortReport> out;
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  if (list == nullptr) return out;
  for (int i = 0; i < count; ++i) add_ports(list[i], out);
  ibv_free_device_list(list);
  return out;
}

}  // namespace nfsrdma::fabric::verbs
