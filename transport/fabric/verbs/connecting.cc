// SPDX-License-Identifier: Apache-2.0
#include "transport/fabric/verbs/connecting.h"

#include <algorithm>

#include "transport/fabric/verbs/verbs.h"
#include "transport/runtime/log.h"

namespace nfsrdma::fabric::verbs {

Result<std::shared_ptr<CmChannel>> Context::channel() {
  if (std::shared_ptr<CmChannel> known = channel_.lock()) return known;
  Result<std::shared_ptr<CmChannel>> opened = CmChannel::open(loop);
  if (opened) channel_ = *opened;
  return opened;
}

std::shared_ptr<DeviceWatch> Context::watch(const std::shared_ptr<Domain>& domain) {
  std::erase_if(watches_, [](const auto& known) { return known.second.expired(); });
  std::weak_ptr<DeviceWatch>& known = watches_[domain.get()];
  std::shared_ptr<DeviceWatch> watch = known.lock();
  if (!watch) known = watch = DeviceWatch::make(loop, domain);
  return watch;
}

void Context::note_device(CmId& id) {
  if (id->verbs == nullptr) return;
  const std::shared_ptr<OpenDevice> device = domains->device(id->verbs);
  id.set_device(device);
  if (!witnesses_.contains(id->verbs)) witness(id, device);
}

void Context::witness(const CmId& id, const std::shared_ptr<OpenDevice>& device) {
  const auto without = [&] {
    log::info("RDMA device {}: its removal will not be noticed while nothing is connected",
              ibv_get_device_name(id->verbs->device));
  };
  Result<std::unique_ptr<CmId>> made = CmId::create(id.channel());
  if (!made) return without();
  net::Endpoint at = id.local_endpoint();
  at.set_port(0);  // any other port
  // The address may also belong to another device.
  if (rdma_bind_addr((*made)->get(), reinterpret_cast<sockaddr*>(&at.address)) != 0 ||
      (**made)->verbs != id->verbs)
    return without();
  (*made)->set_device(device);
  // Posted, because the identifier is on the stack during the event.
  (*made)->set_handler([weak = weak_from_this(), verbs = id->verbs](CmEvent& event) {
    if (event.type != RDMA_CM_EVENT_DEVICE_REMOVAL) return;
    if (const auto self = weak.lock()) self->loop.post([self, verbs] { self->witnesses_.erase(verbs); });
  });
  witnesses_.emplace(id->verbs, std::move(*made));
}

Result<Established> Context::prepare(std::unique_ptr<CmId> id, const EndpointOptions& wanted) {
  Result<std::shared_ptr<Domain>> domain = domains->of((*id)->verbs);
  if (!domain) return fail(std::move(domain).error());
  Established e;
  e.watch = watch(*domain);
  e.domains = domains;
  // make() gets the domain, too: on failure it releases it before the identifier, which may close the device.
  auto pair = QueuePair::make(loop, std::move(id), std::move(*domain), options, wanted.receive_bytes,
                              wanted.receives);
  if (!pair) return fail(std::move(pair).error());
  e.pair = std::move(*pair);
  return e;
}

rdma_conn_param connection_parameters(const ByteVector& said, unsigned reads_answered,
                                      unsigned reads_initiated) {
  rdma_conn_param p{};
  p.private_data = said.data();
  p.private_data_len = static_cast<uint8_t>(said.size());
  // Linux' server does not accept a client that answers no RDMA Reads.
  p.responder_resources = static_cast<uint8_t>(std::clamp(reads_answered, 1u, 255u));
  p.initiator_depth = static_cast<uint8_t>(std::min(reads_initiated, 255u));
  p.retry_count = 7;
  p.rnr_retry_count = 7;  // for ever: a peer without a posted Receive will post one soon
  return p;
}

std::shared_ptr<Domains> make_shared_domains(BufferPool& pool) {
  return std::make_shared<Domains>(pool);
}

uint64_t registrable_bytes(Domains& domains) {
  return domains.registrable_bytes();
}

}  // namespace nfsrdma::fabric::verbs
