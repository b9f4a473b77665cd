// SPDX-License-Identifier: Apache-2.0
// StartupSocket: a TCP socket while MPA's first frames are exchanged (mpa.h), with one deadline for the
// exchange.
//
// initiate() does all of the active side's part. The passive side reads the request, and replies when its
// upper layer has decided. Reads never take bytes beyond the frame: what follows is RDMA.
//
// Errors: kTransport, op "MPA": EPROTO: the peer's bytes are not MPA; ECONNREFUSED: refused; ETIMEDOUT,
// ECONNRESET; kInterrupted after cancel(). Loop thread only.
#pragma once

#include <cstdint>
#include <memory>

#include "transport/fabric/iwarp/mpa.h"
#include "transport/net/connector.h"
#include "transport/net/socket_io.h"

namespace nfsrdma::fabric::iwarp {

class StartupSocket {
 public:
  StartupSocket(Loop& loop, net::Socket socket, TimePoint deadline)
      : loop_(loop), socket_(std::move(socket)), deadline_(deadline) {}

  // Active side. On an error for which the RFC wants a Terminate, sends it.
  Task<Result<Agreed>> initiate(StartupTerms terms, ByteVector* private_data);

  // Passive side.
  Task<Result<StartupFrame>> read_request();
  Task<Result<>> write(ByteVector bytes);

  // The current operation ends soon, and no further one starts.
  void cancel();
  net::Socket release() { return std::move(socket_); }

 private:
  enum class For : uint8_t { kRead, kWrite };
  Task<Result<>> ready(For what);
  Task<Result<>> read(MutableBytes into);
  Task<Result<StartupFrame>> read_frame(StartupFrame::Kind kind);

  Loop& loop_;
  net::Socket socket_;
  const TimePoint deadline_;
  std::shared_ptr<net::SocketWait> wait_;
  bool cancelled_ = false;
};

// A frame with a Terminate, the first and last frame of its connection.
ByteVector terminate_frame(TermCode code, bool crc);

}  // namespace nfsrdma::fabric::iwarp
