// SPDX-License-Identifier: Apache-2.0
// Packets and descriptors over SOCK_SEQPACKET sockets between the daemon and the Kerberos helper. Functions
// without state; any thread. Errors: Layer::kSystem with the call's errno.
#pragma once

#include <cstdint>
#include <utility>

#include "transport/runtime/fd.h"
#include "xdr/support/bytes.h"
#include "xdr/support/result.h"

namespace nfsrdma::security {

// Both ends are closed by execve(2). `flags`: SOCK_NONBLOCK or 0, for the first end only.
Result<std::pair<Fd, Fd>> make_packet_pair(int flags);

Result<> send_packet(int socket, ConstBytes packet);
// Blocks unless the socket does not. An empty packet means that the peer has closed its end. EMSGSIZE: the
// packet was longer than `most`. EAGAIN: there is none yet.
Result<ByteVector> receive_packet(int socket, size_t most);

// An exchange on its way to the helper: its socket, and for whom it is.
struct SentExchange {
  Fd socket;
  uint32_t user = 0;
};

// Gives the peer a descriptor of ours.
Result<> send_exchange(int socket, int exchange, uint32_t user);
// Waits for an exchange. ENOTCONN: the peer has closed its end. EPROTO: the packet is none.
Result<SentExchange> receive_exchange(int socket);

}  // namespace nfsrdma::security
