// SPDX-License-Identifier: Apache-2.0
// Fuzz entry: the Connection Configuration Protocol (RFC 5666 section 6), both roles.
//
// Checked: a call of the program is answered with its XID; only a CONF_RDMA that decodes gets results and
// tells what the client wants. The values that a client takes from a reply are usable for NFS. Both ends
// understand each other.
//
// Input: one byte; if bit 0 is set, the rest is a server's reply, else a client's call.

#include "transport/rdma/configuration.h"

#include "tests/fuzz/fuzz.h"
#include "xdr/rpc.h"

namespace {

using namespace nfsrdma;           // NOLINT
using namespace nfsrdma::rpcrdma;  // NOLINT: used throughout this file
using fuzz::require;

constexpr config_rdma_reply kOurs{4096, 4, 64};

// What a transport returns: an accepted reply, or an error of the RPC layer.
rpc::Outcome outcome_of(ConstBytes message) {
  rpc::reply_header header;
  xdr::Decoder x(message);
  if (!x(header))
    return {fail({.layer = Layer::kRpc,
                  .recovery = Recovery::kPermanent,
                  .errnum = EIO,
                  .op = "CONF_RDMA",
                  .cause = x.failure()}),
            1};
  if (Result<> accepted = check(header, "CONF_RDMA"); !accepted)
    return {fail(std::move(accepted).error()), 1};
  rpc::Reply reply;
  reply.body = x.position();
  reply.head.assign(message.begin(), message.end());
  return {std::move(reply), 1};
}

void be_client(ConstBytes message) {
  const rpc::Outcome outcome = outcome_of(message);
  const auto settled = rdma::configuration_from(outcome);
  if (!outcome.reply) return require(settled && !*settled, "a refusal means that it is not there");
  if (!settled) return;
  require(settled->has_value(), "an answer says something");
  require((*settled)->maxcall_sendsize >= 1024, "RFC 5666 section 6.1: at least 1 KB");
  require((*settled)->maxrdmaread > 0, "and what is written can be fetched");
}

void be_server(ConstBytes message) {
  rpc::call_header header;
  config_rdma_req asked;
  xdr::Decoder x(message);
  const bool ours = x(header) && header.rpcvers == rpc::kRpcVersion && header.prog == CONFIG_RDMA_PROG;
  const bool configures = ours && header.vers == CONFIG_RDMA_VERS1 && header.proc == CONF_RDMA;
  const bool whole = configures && x(asked) && x.left() == 0;

  std::optional<config_rdma_req> theirs;
  const std::optional<ByteVector> answer = rdma::answer_configuration(message, kOurs, theirs);
  require(answer.has_value() == ours, "what is called of this program is answered, and nothing else");
  require(theirs.has_value() == whole, "what decodes counts, and nothing else");
  require(!theirs || *theirs == asked, "as it was sent");
  if (!answer) return;
  rpc::reply_header reply;
  xdr::Decoder a(*answer);
  require(a(reply) && reply.xid == header.xid, "the answer is one to this call");
  config_rdma_reply said;
  if (whole) require(reply.success() && a(said) && said == kOurs, "with what this side takes");
  require(a.left() == 0, "and nothing behind it");
}

// The client's own call, answered by this server and decoded again.
void be_both(const config_rdma_req& wanted) {
  const rpc::Call call = rdma::configuration_call(wanted);
  std::optional<config_rdma_req> theirs;
  const auto answer = rdma::answer_configuration(call.head, kOurs, theirs);
  require(answer && theirs == wanted, "the server hears what the client wants");
  require(answer->size() <= call.max_reply_bytes, "the reply fits");
  const auto settled = rdma::configuration_from(outcome_of(*answer));
  require(settled && *settled && **settled == kOurs, "the client hears what the server takes");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const ConstBytes message = fuzz::bytes_of(data, size).subspan(1);
  if ((data[0] & 1) != 0) {
    be_client(message);
  } else {
    be_server(message);
  }
  config_rdma_req wanted;
  if (fuzz::decodes(message, wanted)) be_both(wanted);
  return 0;
}
