// SPDX-License-Identifier: Apache-2.0
#include "transport/fabric/verbs/device_watch.h"

#include <fcntl.h>

#include <asio/io_context.hpp>
#include <cerrno>

#include "transport/runtime/log.h"

namespace nfsrdma::fabric::verbs {

std::shared_ptr<DeviceWatch> DeviceWatch::make(Loop& loop, const std::shared_ptr<Domain>& domain) {
  const int events = domain->context()->async_fd;
  ::fcntl(events, F_SETFL, ::fcntl(events, F_GETFL) | O_NONBLOCK);
  const int fd = ::fcntl(events, F_DUPFD_CLOEXEC, 0);
  if (fd < 0) return nullptr;  // the connection manager reports a removal, too
  std::shared_ptr<DeviceWatch> watch(new DeviceWatch(loop, domain, fd));
  watch->wait();
  return watch;
}

DeviceWatch::DeviceWatch(Loop& loop, const std::shared_ptr<Domain>& domain, int fd)
    : domain_(domain), descriptor_(loop.context(), fd) {}

void DeviceWatch::wait() {
  descriptor_.async_wait(asio::posix::stream_descriptor::wait_read,
                         [weak = weak_from_this()](const asio::error_code& ec) {
                           const auto self = weak.lock();
                           if (ec || !self) return;
                           if (self->drain()) self->wait();
                         });
}

// False: no further events. The descriptor of a removed device would wake the loop for ever.
bool DeviceWatch::drain() {
  const std::shared_ptr<Domain> domain = domain_.lock();
  if (!domain) return false;
  ibv_async_event event{};
  while (ibv_get_async_event(domain->context(), &event) == 0) {
    const ibv_event_type type = event.event_type;
    ibv_ack_async_event(&event);
    log::debug("RDMA device {}: {}", domain->name(), ibv_event_type_str(type));
    if (type != IBV_EVENT_DEVICE_FATAL) continue;
    log::error("RDMA device {} has failed", domain->name());
    domain->lose();
  }
  return errno == EAGAIN || errno == EINTR;
}

}  // namespace nfsrdma::fabric::verbs
