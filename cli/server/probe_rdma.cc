// SPDX-License-Identifier: Apache-2.0
#include "cli/server/probe_rdma.h"

#include <fmt/core.h>

#include <chrono>
#include <future>
#include <memory>

#include "client/api/make_filesystem.h"
#include "transport/rdma/rdma_transport.h"
#include "transport/rpc/call_message.h"
#include "xdr/nfs4/basic.h"

namespace nfsrdma::cli {
namespace {

constexpr size_t kLongestNullReply = 256;
// Connecting and version negotiation have their own limits. This one is for a server that negotiates and then
// is silent.
constexpr std::chrono::seconds kPatience{30};

using StatusPromise = std::shared_ptr<std::promise<Result<rpc::TransportStatus>>>;

Task<> call_null(rpc::RpcTransport& transport, StatusPromise out) {
  Result<> started = co_await transport.start();
  if (!started) {
    out->set_value(fail(std::move(started).error()));
    co_return;
  }
  rpc::Call call;
  call.op = "NULL";
  call.max_reply_bytes = kLongestNullReply;
  xdr::Encoder x(call.head);
  rpc::begin_call(x, nfs4::NFS4_PROGRAM, 4, 0);
  rpc::Outcome outcome = co_await transport.call(call);
  Result<rpc::TransportStatus> result = transport.status();
  if (!outcome.reply) result = fail(std::move(outcome.reply).error());
  out->set_value(std::move(result));
}

Task<> close_transport(rpc::RpcTransport& transport, std::shared_ptr<std::promise<void>> out) {
  co_await transport.close();
  out->set_value();
}

std::string describe_connection(const rpc::TransportStatus& status) {
  const rdma::RdmaStatus& r = *status.rdma;
  const std::string reason = r.version_reason.empty() ? "" : fmt::format(" ({})", r.version_reason);
  return fmt::format("{}: {}, version {}{}, {} credits at first, inline up to {} bytes out and {} in",
                     status.peer, r.fabric, r.version, reason, r.credits_granted, r.inline_send,
                     r.inline_receive);
}

}  // namespace

Outcome<std::string> probe_rdma(const client::ClientOptions& options) {
  LoopPool loops{1};
  BufferPool pool;
  const auto transport = client::make_rdma_transport(loops[0], pool, options);
  loops.start();
  const auto promise = std::make_shared<std::promise<Result<rpc::TransportStatus>>>();
  auto answer = promise->get_future();
  loops[0].spawn(call_null(*transport, promise));
  const bool in_time = answer.wait_for(kPatience) == std::future_status::ready;
  const auto closed = std::make_shared<std::promise<void>>();
  loops[0].spawn(close_transport(*transport, closed));  // also ends calls that still wait
  closed->get_future().wait();
  const Result<rpc::TransportStatus> status = answer.get();
  loops.stop_and_join();
  if (!in_time) return refuse(ToolExit::kFailed, "NULL: no answer");
  if (!status) return refuse(ToolExit::kFailed, describe(status.error()));
  return describe_connection(*status);
}

}  // namespace nfsrdma::cli
