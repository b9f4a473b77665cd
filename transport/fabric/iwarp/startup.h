// SPDX-License-Identifier: Apache-2.0
// StartupSocket: a TCP socket while MPA's first frames go over it (mpa.h), with one deadline for all of it.
//
// initiate() is the active side's whole part; the passive side reads the request and answers when its upper
// layer has decided. Reads take not one byte more than a frame has: what follows is RDMA.
//
// Errors: kTransport, op "MPA": EPROTO what no MPA peer says, ECONNREFUSED refused, ETIMEDOUT, ECONNRESET;
// kInterrupted after cancel(). Loop thread only.
#pragma once

#include <cstdint>
#include <memory>

#include "transport/fabric/iwarp/mpa.h"
#include "transport/tcp/connector.h"
#include "transport/tcp/socket_io.h"

namespace nfsrdma::fabric::iwarp {

class StartupSocket {
 public:
  StartupSocket(Loop& loop, tcp::Socket socket, TimePoint deadline)
      : loop_(loop), socket_(std::move(socket)), deadline_(deadline) {}

  // Active side. A refusal that the RFC wants said is said.
  Task<Result<Agreed>> initiate(StartupTerms terms, ByteVector* private_data);

  // Passive side.
  Task<Result<StartupFrame>> read_request();
  Task<Result<>> write(ByteVector bytes);

  // What is under way ends soon, and nothing more begins.
  void cancel();
  tcp::Socket release() { return std::move(socket_); }

 private:
  enum class For : uint8_t { kRead, kWrite };
  Task<Result<>> ready(For what);
  Task<Result<>> read(MutableBytes into);
  Task<Result<StartupFrame>> read_frame(StartupFrame::Kind kind);

  Loop& loop_;
  tcp::Socket socket_;
  const TimePoint deadline_;
  std::shared_ptr<tcp::SocketWait> wait_;
  bool cancelled_ = false;
};

// A frame that carries a Terminate, the first and last of its connection.
ByteVector terminate_frame(TermCode code, bool crc);

}  // namespace nfsrdma::fabric::iwarp
