// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/client/support/callback_caller.h"

namespace nfsrdma::test {

nfs4::sessionid4 CallbackCaller::session(unsigned n) {
  nfs4::sessionid4 id;
  id.data.fill(static_cast<std::byte>(n));
  return id;
}

CallbackCaller::CallbackCaller() {
  slots.open(1, session(1), 16, {2});
  server.session_opened(session(1), client::nfs4::offered_back_channel());
}

client::nfs4::DelegationRef CallbackCaller::grant(const nfs4::nfs_fh4& fh, const nfs4::stateid4& stateid,
                                                  bool write) {
  nfs4::open_delegation4 granted;
  granted.delegation_type = write ? nfs4::OPEN_DELEGATE_WRITE : nfs4::OPEN_DELEGATE_READ;
  granted.stateid = stateid;
  auto delegation = std::make_shared<client::nfs4::Delegation>(fh, granted, nullptr, 1);
  delegations.add(delegation, client::nfs4::Delegations::Came::kGranted);
  return delegation;
}

ByteVector CallbackCaller::call(const Header& h, ConstBytes arguments) {
  rpc::call_header header;
  header.xid = rpc::Xid{h.xid};
  header.rpcvers = h.rpc_version;
  header.prog = h.program;
  header.vers = h.version;
  header.proc = h.procedure;
  header.cred = h.credential;
  ByteVector message;
  xdr::Encoder x(message);
  if (h.rpc_version == rpc::kRpcVersion) {
    x(header);
  } else {
    x(header.xid);
    x(rpc::CALL);
    x(h.rpc_version);
  }
  message.insert(message.end(), arguments.begin(), arguments.end());
  return message;
}

ByteVector CallbackCaller::encode(const nfs4::CB_COMPOUND4args& args) {
  ByteVector bytes;
  xdr::Encoder x(bytes);
  EXPECT_TRUE(x(args)) << x.failure();
  return bytes;
}

nfs4::CB_SEQUENCE4args CallbackCaller::sequence(uint32_t slot, bool cache_this) {
  nfs4::CB_SEQUENCE4args args;
  args.csa_sessionid = session(1);
  args.csa_slotid = slot;
  args.csa_highest_slotid = slot;
  args.csa_sequenceid = ++sequences_.at(slot);
  args.csa_cachethis = cache_this;
  return args;
}

CallbackReply CallbackCaller::read(ByteVector bytes) {
  CallbackReply reply;
  reply.bytes = std::move(bytes);
  if (reply.bytes.empty()) return reply;
  xdr::Decoder x(reply.bytes);
  EXPECT_TRUE(x(reply.header)) << x.failure();
  if (!reply.header.success() || x.left() == 0) return reply;
  EXPECT_TRUE(x(reply.results)) << x.failure();
  EXPECT_EQ(x.left(), 0u);
  // RFC 8881 section 19.2.3: "This status MUST be equal to the status of the last operation that was
  // executed".
  if (!reply.results.resarray.empty()) {
    EXPECT_EQ(reply.results.status, reply.results.resarray.back().status());
  }
  for (size_t i = 0; i + 1 < reply.results.resarray.size(); ++i) {
    EXPECT_EQ(reply.results.resarray[i].status(), nfs4::NFS4_OK);
  }
  return reply;
}

}  // namespace nfsrdma::test
