// SPDX-License-Identifier: Apache-2.0
#include "transport/rdma/rdma_transport.h"

#include <cerrno>
#include <utility>

#include "transport/rdma/configuration.h"
#include "transport/rdma/connection.h"
#include "transport/rdma/endpoint_options.h"
#include "transport/rpc/client_transport.h"
#include "transport/runtime/log.h"
#include "transport/runtime/mutex.h"

namespace nfsrdma::rdma {
namespace {

Error no_version(const char* cause, Recovery recovery) {
  return {.layer = Layer::kTransport,
          .recovery = recovery,
          .errnum = EPROTONOSUPPORT,
          .op = "connect",
          .cause = cause};
}

const char* why_not_version2(RdmaConnection::Agreement agreement) {
  return agreement == RdmaConnection::Agreement::kNoVersion2 ? "it did not answer in RPC-over-RDMA version 2"
                                                             : "it has no RPC-over-RDMA version 2 (ERR_VERS)";
}

class RdmaDialer final : public rpc::Dialer {
 public:
  RdmaDialer(Loop& loop, std::unique_ptr<fabric::Fabric> fabric, RdmaOptions options,
             std::shared_ptr<VersionMemory> memory, BufferPool& pool)
      : loop_(loop),
        fabric_(std::move(fabric)),
        options_(std::move(options)),
        memory_(std::move(memory)),
        pool_(pool) {}

  Task<Result<std::shared_ptr<rpc::Connection>>> dial(rpc::ConnectionUse use) override {
    bool ask = options_.versions == Versions::kOnly2 ||
               (options_.versions == Versions::kAuto && !memory_->lacks_version2(Clock::now()));
    while (true) {
      fabric::ConnectOptions connect = connect_options();
      Result<std::unique_ptr<fabric::Endpoint>> endpoint = co_await fabric_->connect(std::move(connect));
      if (!endpoint) co_return fail(std::move(endpoint).error());
      connected_before_ = true;
      note_fabric(**endpoint);
      auto connection = std::make_shared<RdmaConnection>(loop_, *std::move(endpoint), use.owner, use.calls,
                                                         use.counters, options_, counters_, pool_);
      using Agreement = RdmaConnection::Agreement;
      agreeing_ = connection;
      const Agreement agreement = co_await connection->agree(ask);
      if (cancelled_) co_return fail(cancelled_error());  // no conclusion about the server
      if (agreement == Agreement::kVersion2) memory_->note_has_version2();
      if (ask && agreement != Agreement::kVersion2) note_lacks_version2(agreement);
      const bool wanted = agreement == Agreement::kVersion2 ||
                          (agreement == Agreement::kVersion1 && options_.versions != Versions::kOnly2);
      if (wanted) {
        connection->hold(std::move(use.pass), memory_);
        co_return connection;
      }
      if (agreement == Agreement::kNeither)
        co_return fail(
            no_version("the server speaks neither RPC-over-RDMA version 1 nor 2", Recovery::kPermanent));
      if (agreement == Agreement::kVersion1)
        co_return fail(no_version("the server speaks RPC-over-RDMA version 1 only", Recovery::kPermanent));
      if (options_.versions == Versions::kOnly2)
        co_return fail(no_version("no answer in RPC-over-RDMA version 2", Recovery::kReconnect));
      ask = false;
    }
  }

  // If configured: agrees on the inline limits of the new connection by RFC 5666 section 6.
  Task<Result<>> configure(rpc::RpcTransport& transport) {
    const std::shared_ptr<RdmaConnection> connection = agreeing_.lock();
    const bool version1 = counters_.version.load(std::memory_order_relaxed) == rpcrdma::kVersion1;
    if (!options_.configuration_protocol || !version1 || connection == nullptr) co_return Result<>{};
    rpc::Call call = configuration_call(connection->wanted());
    const rpc::Outcome outcome = co_await transport.call(call);
    auto theirs = configuration_from(outcome);
    if (!theirs) co_return fail(std::move(theirs).error());
    if (*theirs) {
      connection->configured(**theirs);
    } else if (!std::exchange(lacks_configuration_, true)) {
      log::info("server {}: it has no Connection Configuration Protocol (RFC 5666); ccp has no effect",
                options_.host);
    }
    co_return Result<>{};
  }

  void cancel() override {
    cancelled_ = true;
    if (fabric_) fabric_->cancel();
    if (const auto connection = agreeing_.lock()) connection->drop(cancelled_error());
  }

  void closed() override { fabric_.reset(); }

  uint32_t credits() const override { return counters_.credit_limit.load(std::memory_order_relaxed); }
  void describe(rpc::TransportStatus& status) const override {
    RdmaStatus& s = status.rdma.emplace();
    s.fabric_reason = options_.fabric_reason;
    describe_connection(s);
    describe_traffic(s);
  }

 private:
  static Error cancelled_error() {
    return {.layer = Layer::kTransport,
            .recovery = Recovery::kInterrupted,
            .errnum = EINTR,
            .op = "connect",
            .cause = "cancelled"};
  }

  void note_lacks_version2(RdmaConnection::Agreement agreement) {
    const char* why = why_not_version2(agreement);
    const bool news = memory_->note_lacks_version2(Clock::now(), why);
    if (news && options_.versions == Versions::kAuto && agreement != RdmaConnection::Agreement::kNeither)
      log::info("server {}: {}; using version 1", options_.host, why);
  }

  void note_fabric(const fabric::Endpoint& endpoint) {
    MutexLock lock(mutex_);
    carrier_ = endpoint.carrier();
    exposure_ = endpoint.limits().exposure;
  }

  void describe_connection(RdmaStatus& s) const {
    s.version = counters_.version.load(std::memory_order_relaxed);
    if (s.version == rpcrdma::kVersion1 && options_.versions == Versions::kAuto)
      s.version_reason = memory_->reason();
    s.credits_asked = options_.credits;
    s.credits_granted = counters_.credit_limit.load(std::memory_order_relaxed);
    s.credits_in_use = counters_.credits_in_use.load(std::memory_order_relaxed);
    s.segments_open = counters_.segments_open.load(std::memory_order_relaxed);
    s.inline_send = counters_.inline_send.load(std::memory_order_relaxed);
    s.inline_receive = counters_.inline_receive.load(std::memory_order_relaxed);
    {
      MutexLock lock(mutex_);
      s.fabric = carrier_;
      s.exposure = exposure_;
    }
    s.remote_invalidation = counters_.remote_invalidation.load(std::memory_order_relaxed);
  }

  void describe_traffic(RdmaStatus& s) const {
    s.inline_calls = counters_.inline_calls.get();
    s.read_chunks = counters_.read_chunks.get();
    s.long_calls = counters_.long_calls.get();
    s.inline_replies = counters_.inline_replies.get();
    s.write_chunks = counters_.write_chunks.get();
    s.reply_chunks = counters_.reply_chunks.get();
    s.bytes_inline = counters_.bytes_inline.get();
    s.bytes_placed = counters_.bytes_placed.get();
    s.bytes_fetched = counters_.bytes_fetched.get();
    s.bytes_long = counters_.bytes_long.get();
    s.reads_inline = counters_.reads_inline.get();
    s.reads_long = counters_.reads_long.get();
    s.reads_chunk_unused = counters_.reads_chunk_unused.get();
    s.remotely_invalidated = counters_.remotely_invalidated.get();
    s.errors_received = counters_.errors_received.get();
    s.errors_sent = counters_.errors_sent.get();
    s.calls_repeated = counters_.calls_repeated.get();
  }

  fabric::ConnectOptions connect_options() const {
    fabric::ConnectOptions o;
    o.host = options_.host;
    o.port = options_.port;
    o.address = options_.address;
    o.follows = options_.follows;
    o.family = options_.family;
    o.reserved_port = options_.reserved_port;
    o.timeout = connected_before_ ? options_.connect_timeout : options_.first_connect_timeout;
    rpcrdma::private_data ours;
    ours.send_bytes = ours.receive_bytes = options_.inline_bytes;
    ours.remote_invalidation = true;
    // One for each reply, one for each call of the server, one for CONNPROP.
    const unsigned receives = options_.credits + options_.callback_credits + 1;
    o.endpoint = make_endpoint_options(options_.receive_bytes, receives, ours);
    return o;
  }

  Loop& loop_;
  std::unique_ptr<fabric::Fabric> fabric_;  // null after closed()
  const RdmaOptions options_;
  const std::shared_ptr<VersionMemory> memory_;
  BufferPool& pool_;
  RdmaCounters counters_;
  std::weak_ptr<RdmaConnection> agreeing_;
  bool connected_before_ = false;
  bool cancelled_ = false;
  bool lacks_configuration_ = false;

  mutable Mutex mutex_;  // for describe(), on any thread
  std::string carrier_ NFSRDMA_GUARDED_BY(mutex_) = fabric_->name();
  const char* exposure_ NFSRDMA_GUARDED_BY(mutex_) = "";
};

Task<Result<>> begin(RdmaDialer& dialer, std::function<Task<Result<>>(rpc::RpcTransport&)> next,
                     rpc::RpcTransport& transport) {
  Result<> configured = co_await dialer.configure(transport);
  if (!configured || !next) co_return configured;
  co_return co_await next(transport);
}

}  // namespace

std::unique_ptr<rpc::RpcTransport> make_rdma_transport(Loop& loop, std::unique_ptr<fabric::Fabric> fabric,
                                                       RdmaOptions options,
                                                       std::shared_ptr<VersionMemory> memory,
                                                       BufferPool& pool, rpc::TransportHooks hooks) {
  rpc::ClientTransportOptions client{.host = options.host,
                                     .protocol = "rdma",
                                     .timeo = options.timeo,
                                     .retrans = options.retrans,
                                     .backoff_first = options.backoff_first,
                                     .backoff_max = options.backoff_max};
  const bool configure = options.configuration_protocol;
  auto dialer =
      std::make_unique<RdmaDialer>(loop, std::move(fabric), std::move(options), std::move(memory), pool);
  if (configure) {
    hooks.on_connected = [&d = *dialer, next = std::move(hooks.on_connected)](rpc::RpcTransport& transport) {
      return begin(d, next, transport);
    };
  }
  return std::make_unique<rpc::ClientTransport>(loop, std::move(dialer), std::move(client), std::move(hooks));
}

}  // namespace nfsrdma::rdma
