// SPDX-License-Identifier: Apache-2.0
// The passive side: an identifier that listens, and peers that ask for a connection. Loop thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "transport/fabric/verbs/connecting.h"

namespace nfsrdma::fabric::verbs {

using OnIncoming = std::function<void(std::unique_ptr<Incoming>)>;

// Listens on every device that has the address, including devices that appear later: for the wildcard address
// at once, for another address within a second. Errors: kTransport, op "listen"; ENODEV: no device has the
// address.
Result<std::unique_ptr<Listener>> make_listener(const std::shared_ptr<Context>& context,
                                                const std::string& address, uint16_t port,
                                                OnIncoming on_incoming);

}  // namespace nfsrdma::fabric::verbs
