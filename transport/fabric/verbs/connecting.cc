#include "transport/fabric/verbs/connecting.h"

#include <algorithm>

#include "transport/fabric/verbs/verbs.h"

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
  if (id->verbs != nullptr) id.set_device(domains->device(id->verbs));
}

Result<Established> Context::prepare(std::unique_ptr<CmId> id, const EndpointOptions& wanted) {
  Result<std::shared_ptr<Domain>> domain = domains->of((*id)->verbs);
  if (!domain) return fail(std::move(domain).error());
  Established e;
  e.watch = watch(*domain);
  e.domains = domains;
  auto pair = QueuePair::make(loop, std::move(id), *domain, options, wanted.receive_bytes, wanted.receives);
  if (!pair) return fail(std::move(pair).error());
  e.pair = std::move(*pair);
  return e;
}

rdma_conn_param connection_parameters(const ByteVector& said, unsigned reads_answered,
                                      unsigned reads_initiated) {
  rdma_conn_param p{};
  p.private_data = said.data();
  p.private_data_len = static_cast<uint8_t>(said.size());
  // Linux' server does not accept who answers no Reads at all.
  p.responder_resources = static_cast<uint8_t>(std::clamp(reads_answered, 1u, 255u));
  p.initiator_depth = static_cast<uint8_t>(std::min(reads_initiated, 255u));
  p.retry_count = 7;
  p.rnr_retry_count = 7;  // for ever: who has no Receive posted has one soon
  return p;
}

std::shared_ptr<Domains> make_shared_domains(BufferPool& pool) {
  return std::make_shared<Domains>(pool);
}

}  // namespace nfsrdma::fabric::verbs
