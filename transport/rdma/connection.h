// SPDX-License-Identifier: Apache-2.0
// RdmaConnection: the Requester's end of one RPC-over-RDMA connection (RFC 8166 for version 1,
// draft-cel-nfsv4-rpcrdma-version-two-09 for version 2), over any fabric.
//
// send           connection_send.cc      credits, chunks, the header
// receive        connection_receive.cc   replies, calls of the server, defects of both
// errors         connection_errors.cc    RDMA_ERROR and the reaction to each error
// beginning      connection_begin.cc     agreement on a version
//
// A call's memory is open to the server from the call's Send until its reply arrives. The caller gets the
// reply after the memory is closed again. Replies of the back channel and the server's calls are inline (RFC
// 8167). One loop; nothing blocks.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "transport/fabric/fabric.h"
#include "transport/rdma/credits.h"
#include "transport/rdma/exchange.h"
#include "transport/rdma/options.h"
#include "transport/rdma/rdma_counters.h"
#include "transport/rdma/version_memory.h"
#include "transport/rpc/connection.h"
#include "transport/runtime/sync.h"
#include "xdr/rpcrdma/configuration.h"
#include "xdr/rpcrdma/header.h"
#include "xdr/rpcrdma/private_data.h"

namespace nfsrdma::rdma {

class RdmaConnection final : public rpc::Connection, private fabric::EndpointEvents {
 public:
  RdmaConnection(Loop& loop, std::unique_ptr<fabric::Endpoint> endpoint, rpc::ConnectionOwner& owner,
                 rpc::PendingCalls& calls, rpc::Counters& counters, const RdmaOptions& options,
                 RdmaCounters& rdma_counters, BufferPool& pool);
  ~RdmaConnection() override;

  // The result of the first message.
  enum class Agreement : uint8_t {
    kVersion1,
    kVersion2,
    kNoVersion2,  // no answer, the end of the connection, or an unexpected message: try again with version 1
    kNeither,     // the server named its versions, and ours are not among them
  };
  // To be called once, before begin(). `ask`: begin with version 2.
  Task<Agreement> agree(bool ask);

  // For the Connection Configuration Protocol: our values, and the server's. Version 1 only, during the
  // handshake.
  rpcrdma::config_rdma_req wanted() const;
  void configured(const rpcrdma::config_rdma_reply& theirs);

  // From now on this connection holds a Pass of its owner's gate, and `versions` records the versions that
  // the server reports.
  void hold(Gate::Pass pass, std::shared_ptr<VersionMemory> versions) {
    pass_ = std::move(pass);
    versions_ = std::move(versions);
  }

  void begin() override {}
  void send(rpc::PendingCall& call) override;
  void send(ByteVector reply) override;
  // on_receive() limits these replies together with everything else that waits for the server here.
  size_t replies_queued() const override { return 0; }
  bool has_moved(const rpc::PendingCall& oldest) override;
  void forget(rpc::PendingCall& call) override;
  void drop(Error why) override;
  bool open() const override { return open_; }
  const std::string& peer() const override { return endpoint_->peer(); }
  const std::string& local() const override { return endpoint_->local(); }
  std::string protocol() const override { return "rdma"; }

 private:
  // EndpointEvents.
  void on_receive(fabric::Received received) override;
  void on_completed(fabric::Cookie) override {}
  void on_invalidated(fabric::Cookie cookie) override;
  void on_disconnected(const Error& why) override;

  // Sending.
  void pump();
  void send_queued();
  void note_credits();
  // Bytes that the server placed in and fetched from our memory, if the fabric counts them.
  uint64_t moved() const;
  bool start(rpc::PendingCall& call);
  bool transmit(Exchange& x);
  CallSizes sizes_of(const rpc::Call& call) const;
  PlanLimits plan_limits() const;
  Plan plan_for(const Exchange& x) const;
  Result<> expose_call(Exchange& x);
  Result<> expose_reply(Exchange& x);
  Result<> expose(Exchange& x, MutableBytes memory, fabric::Access access, PipedPlace* piped = nullptr);
  void take_piped(Exchange& x, rpc::ReceivedReply& reply);
  void forget_exposed(Exchange& x);
  void release(Exchange& x);
  void give_up_start(Exchange& x);
  void fill_header(const Exchange& x);
  void post(const Exchange& x);
  void count(const Exchange& x);

  // Receiving.
  void on_reply(ConstBytes body, uint32_t invalidated);
  void on_call(ConstBytes body, uint32_t invalidated);
  void on_defect(rpcrdma::Defect defect, uint32_t invalidated);
  void on_abandoned(Exchange& x);
  const char* take_reply(Exchange& x, ConstBytes body);
  const char* take_inline(Exchange& x, ConstBytes body);
  const char* take_long(Exchange& x);
  void note_not_placed(const Exchange& x);
  void answer(Exchange& x, const char* defect, uint32_t invalidated);
  void refuse(Exchange& x, Error why, uint32_t invalidated);
  void close(Exchange& x, uint32_t invalidated);
  void finish(Exchange& x);
  void stray();
  void broken(const char* what);
  rpc::PendingCall* pending(uint32_t xid);
  bool is_of(const rpc::PendingCall* call, uint32_t handle);

  // Errors.
  void on_error(uint32_t invalidated);
  bool speaks_only_version2() const;
  bool react_version1(Exchange& x);
  bool react_version2(Exchange& x);
  bool offer_fewer_segments(Exchange& x, uint32_t most);
  bool offer_longer_item(Exchange& x, uint32_t index, uint32_t needed);
  bool offer_longer_reply(Exchange& x, uint32_t needed);
  void expect_no_inline_reply_of(size_t bytes);
  void send_again(Exchange& x);
  void end_repeat(Exchange& x, Error why);
  void wait_for_memory();
  Task<> look_for_memory(std::shared_ptr<RdmaConnection> keep_alive);
  void send_error(const rpcrdma::header& to, const rpcrdma::error& error);

  // Beginning.
  void on_first_message(rpcrdma::Defect defect);
  void on_properties(uint32_t invalidated);
  void take_properties();
  void agreed(Agreement agreement);
  Task<> give_up_waiting(std::shared_ptr<RdmaConnection> keep_alive);
  void send_properties(uint32_t xid);
  void set_version(uint32_t version);

  std::shared_ptr<RdmaConnection> self() {
    return std::static_pointer_cast<RdmaConnection>(shared_from_this());
  }

  Loop& loop_;
  rpc::ConnectionOwner& owner_;
  rpc::PendingCalls& calls_;
  rpc::Counters& counters_;
  RdmaCounters& rdma_counters_;
  BufferPool& pool_;
  Gate::Pass pass_;  // released after the endpoint is destroyed
  std::shared_ptr<VersionMemory> versions_;
  const RdmaOptions& options_;
  bool open_ = true;

  const rpcrdma::private_data theirs_;
  uint32_t version_ = 0;  // 0: no agreement yet
  size_t inline_send_ = 1024;
  size_t inline_receive_ = 1024;
  bool remote_invalidation_ = false;
  uint32_t first_xid_ = 0;
  Completion<Agreement>* agreeing_ = nullptr;
  Timer agree_timer_;

  // Set while no memory can be opened to the server and none is open.
  std::optional<TimePoint> without_memory_since_;
  bool waits_for_memory_ = false;
  Timer memory_timer_;

  Credits credits_;
  std::deque<rpc::PendingCall*> queue_;   // wait for a credit
  std::deque<rpc::PendingCall*> urgent_;  // likewise: handshake, lease renewals
  Exchanges exchanges_;
  size_t unsent_ = 0;         // exchanges in state kUnsent
  size_t segments_open_ = 0;  // open to the server
  uint64_t moved_ = 0;        // moved() at the last has_moved()

  rpcrdma::header in_;   // header of the message being received
  rpcrdma::header out_;  // header of the message being sent
  ByteVector out_bytes_;
  std::vector<ConstBytes> parts_;

  // Last member: memory that is open to the server, and its owners, must exist until the endpoint has closed
  // it.
  const std::unique_ptr<fabric::Endpoint> endpoint_;
};

}  // namespace nfsrdma::rdma
