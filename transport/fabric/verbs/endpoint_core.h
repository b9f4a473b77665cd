// SPDX-License-Identifier: Apache-2.0
// EndpointCore: one established connection; implements fabric::Endpoint.
//
//   kNew     created, not started: messages wait in their Receives
//   kUp      start() was called
//   kEnding  ended for the owner; all work requests are being flushed, for at most kFlush
//   kClosed  windows, queue pair and registrations are destroyed, in this order; on_disconnected() was called
//
// send queue   endpoint_send.cc      posts what fits at the end of a turn, all together; the rest waits here
// completions  endpoint_receive.cc
//
// Shared by its handle (endpoint.h) and its handlers. Loop thread only.
#pragma once

#include <asio/steady_timer.hpp>
#include <cstdint>
#include <deque>
#include <memory>

#include "transport/fabric/verbs/device_watch.h"
#include "transport/fabric/verbs/exposures.h"
#include "transport/fabric/verbs/keep_alive.h"
#include "transport/fabric/verbs/queue_pair.h"
#include "transport/fabric/verbs/send_ledger.h"
#include "transport/fabric/verbs/work.h"

namespace nfsrdma::fabric::verbs {

// A connection after it was established.
struct Established {
  std::unique_ptr<QueuePair> pair;
  std::shared_ptr<DeviceWatch> watch;
  std::shared_ptr<Domains> domains;
  ByteVector private_data;       // the peer's
  unsigned reads_initiated = 0;  // maximum of our outstanding RDMA Reads
  bool active = false;
};

class EndpointCore final : public std::enable_shared_from_this<EndpointCore> {
 public:
  static constexpr std::chrono::seconds kFlush{2};

  EndpointCore(Loop& loop, const Options& options, Established established);
  ~EndpointCore();

  // As in fabric::Endpoint.
  void begin();  // starts to receive events of the connection manager
  void start(EndpointEvents& events);
  void send(std::span<const ConstBytes> parts, uint32_t invalidate, bool solicited);
  Result<std::vector<rpcrdma::segment>> expose(MutableBytes memory, Access access);
  bool invalidate(std::span<const rpcrdma::segment> segments, uint32_t remotely, Cookie cookie);
  bool revoke(std::span<const rpcrdma::segment> segments);
  void write(const rpcrdma::segment& target, ConstBytes source, Owner owner, std::optional<Cookie> cookie);
  void read(MutableBytes target, const rpcrdma::segment& source, Owner owner, Cookie cookie);
  void disconnect(Error why) { end(std::move(why)); }
  // The handle is destroyed: no further events, and no memory is reachable or in use after this returns.
  void detach();

  size_t unsent_bytes() const { return unsent_bytes_; }
  const EndpointLimits& limits() const { return limits_; }
  EndpointCounters counters() const { return counters_; }
  const ByteVector& peer_private_data() const { return private_data_; }
  const std::string& peer() const { return peer_; }
  const std::string& local() const { return local_; }
  const std::string& carrier() const { return carrier_; }

 private:
  enum class State : uint8_t { kNew, kUp, kEnding, kClosed };
  bool usable() const { return state_ == State::kNew || state_ == State::kUp; }

  // endpoint_core.cc: memory, and the end.
  bool close_segments(std::span<const rpcrdma::segment> segments, uint32_t remotely,
                      std::optional<Cookie> cookie);
  void on_cm_event(const CmEvent& event);
  void end(Error why);
  void lost(int errnum, const char* op, std::string cause);
  void close();
  void release();
  void tell();
  void arm_keep_alive();

  // endpoint_send.cc
  Result<> prepare_local(Work& work, MutableBytes memory);
  Result<> copy_local(Work& work, MutableBytes memory);
  void submit_bind(const Exposures::Opened& opened, MutableBytes memory, Access access);
  void submit(WorkPtr work);
  void submit_read(WorkPtr work);
  void flush();
  bool post_batch();
  void refused(int errnum, const ibv_send_wr* first);
  bool ready(Work& work);
  void fill(Work& work, ibv_send_wr& request, ibv_sge& sge);
  void ask_peer();

  // endpoint_receive.cc
  void on_completions(std::span<const ibv_wc> batch);
  void on_received(const ibv_wc& completion);
  void on_sent(const ibv_wc& completion);
  void finish(WorkPtr done);
  void next_read();
  void finish_invalidation(uint32_t handle, uint64_t number);
  void note_flushed(const ibv_wc& completion);
  void failed(const ibv_wc& completion, const char* what);

  Loop& loop_;
  const Options options_;
  std::unique_ptr<QueuePair> pair_;
  std::shared_ptr<DeviceWatch> watch_;
  const std::shared_ptr<Domains> domains_;
  const ByteVector private_data_;
  const std::string peer_;
  const std::string local_;
  const std::string carrier_;
  const unsigned reads_at_once_;
  const bool sends_with_invalidate_;
  const EndpointLimits limits_;
  asio::steady_timer timer_;  // kUp: keep-alive; kEnding: kFlush
  KeepAlive keep_alive_;
  State state_ = State::kNew;
  EndpointEvents* events_ = nullptr;  // null: not started, on_disconnected() was called, or detached
  std::optional<Error> why_;          // kEnding, kClosed
  EndpointCounters counters_;

  Exposures exposures_;
  struct Invalidation {
    std::optional<Cookie> cookie;  // nullopt: nobody waits for it
    unsigned left = 0;
  };
  std::unordered_map<uint64_t, Invalidation> invalidations_;  // by number
  uint64_t next_invalidation_ = 1;

  SendLedger ledger_;
  std::vector<unsigned> slots_;  // free pieces of QueuePair::sends()
  WorkPool works_;
  std::deque<WorkPtr> waiting_;  // for room in the send queue
  size_t unsent_bytes_ = 0;      // held by waiting_
  size_t slotless_ = 0;          // Sends in waiting_ that have no piece yet
  std::deque<WorkPtr> posted_;   // in the ledger's order
  std::deque<WorkPtr> reads_;    // wait until other Reads complete; operations behind them go on
  unsigned reads_under_way_ = 0;
  bool flush_queued_ = false;
};

}  // namespace nfsrdma::fabric::verbs
