// SPDX-License-Identifier: Apache-2.0
// EndpointCore: one connection after its start-up; implements fabric::Endpoint.
//
//   kNew      created, not started: nothing is received
//   kUp       start() was called
//   kEnding   ended for the owner: no memory but its own is used. It sends the rest of a frame that was sent
//             in part (and a Terminate, if there is a reason), then FIN, and discards what it receives.
//             Closing at once would answer unread bytes with a RST, and the peer's kernel would discard the
//             Terminate
//   kClosed   the peer has closed, too, or kLinger has passed
//
// Shared by its handle (endpoint.h) and its handlers, so it outlives the handle while it ends. Loop thread
// only.
#pragma once

#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>
#include <cstdint>
#include <memory>

#include "transport/fabric/iwarp/iwarp.h"
#include "transport/fabric/iwarp/mpa.h"
#include "transport/fabric/iwarp/read_list.h"
#include "transport/fabric/iwarp/send_queue.h"
#include "transport/fabric/iwarp/stag_table.h"
#include "transport/fabric/iwarp/stream_reader.h"
#include "transport/net/connector.h"
#include "transport/net/socket_io.h"
#include "transport/runtime/log.h"

namespace nfsrdma::fabric::iwarp {

// A connection after the MPA start-up.
struct Established {
  net::Connected connection;
  Agreed agreed;
  bool active = false;
  ByteVector private_data;  // the peer's
  size_t receive_bytes = 0;
  // Limits log lines about peers that broke a rule: one for all connections of a fabric, or of a listener.
  std::shared_ptr<log::Throttle> violations = std::make_shared<log::Throttle>();
};

class EndpointCore final : public std::enable_shared_from_this<EndpointCore>, private Placement {
 public:
  static constexpr size_t kMaxSegmentBytes = 1u << 30;

  EndpointCore(Loop& loop, const Options& options, Established established);

  // As in fabric::Endpoint.
  void start(EndpointEvents& events);
  void send(std::span<const ConstBytes> parts, uint32_t invalidate, bool solicited);
  Result<std::vector<rpcrdma::segment>> expose(MutableBytes memory, Access access, PipedPlace* piped);
  // `revoked`: the peer may still invalidate these handles, which is then no violation.
  void invalidate(std::span<const rpcrdma::segment> segments, bool revoked);
  void write(const rpcrdma::segment& target, ConstBytes source, Owner owner, std::optional<Cookie> cookie);
  void read(MutableBytes target, const rpcrdma::segment& source, Owner owner, Cookie cookie);
  void disconnect(Error why);
  // The handle is destroyed: no further events.
  void detach();

  size_t unsent_bytes() const { return queue_.owned_bytes() + queue_.write_bytes(); }
  EndpointCounters counters() const { return counters_; }
  const ByteVector& peer_private_data() const { return private_data_; }
  const std::string& peer() const { return peer_; }
  const std::string& local() const { return local_; }

 private:
  enum class State : uint8_t { kNew, kUp, kEnding, kClosed };
  bool usable() const { return state_ == State::kNew || state_ == State::kUp; }

  // endpoint_core.cc: the end.
  enum class Ending : uint8_t { kOrderly, kLost };
  void end(Error why, const std::optional<Terminate>& last, Ending ending);
  void violated(const Terminate& terminate);
  void close();

  // endpoint_receive.cc
  Place place(const Segment& segment, size_t bytes) override;
  void wait_readable();
  bool clogged() const;
  void on_readable();
  enum class Received : uint8_t { kMore, kDrained, kEnded };
  Received receive(size_t& bytes);
  std::optional<Received> receive_into_pipe(const StreamReader::Window& window, size_t& bytes);
  void drain();
  void hand_out();
  void on_send();
  void on_read_request();
  void on_placed();
  void on_terminate();

  // endpoint_send.cc
  bool may_send() const;
  void queue_flush();
  void flush_queued();
  void flush();
  void transmit();
  void hand_out_done();
  void wait_writable();
  void request_reads();
  void arm_nudge();

  Loop& loop_;
  const Options options_;
  const Agreed agreed_;
  const bool active_;
  const std::string peer_;
  const std::string local_;
  const ByteVector private_data_;
  const std::shared_ptr<log::Throttle> violations_;
  asio::posix::stream_descriptor descriptor_;
  asio::steady_timer timer_;  // kUp: the nudge; kEnding: the linger
  State state_ = State::kNew;
  EndpointEvents* events_ = nullptr;  // null: not started, on_disconnected() was called, or detached
  EndpointCounters counters_;

  StagTable tags_;
  ReadList reads_;
  StreamReader reader_;
  SendQueue queue_;

  net::LowWater low_water_;
  net::PipeFiller filler_;
  bool receiving_ = false;       // on_readable() is on the stack
  bool waits_readable_ = false;  // on_readable() will be called
  bool paused_ = false;          // not reading: the peer does not take the responses to its requests
  bool flush_queued_ = false;
  bool waits_writable_ = false;
  bool shut_ = false;  // FIN was sent
  unsigned nudges_ = 0;
};

}  // namespace nfsrdma::fabric::iwarp
