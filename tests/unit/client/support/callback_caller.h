// SPDX-License-Identifier: Apache-2.0
// CallbackCaller: the server's side of a back channel, down to the bytes. It builds valid and invalid calls,
// gives them to a CallbackServer on its own loop, and decodes the replies.
//
// One per test, used by the test's thread.
#pragma once

#include <cstdint>

#include <gtest/gtest.h>

#include "client/nfs4/callbacks/callback.h"
#include "tests/unit/transport/support/run_on.h"
#include "xdr/rpc.h"

namespace nfsrdma::test {

// The reply to a call.
struct CallbackReply {
  ByteVector bytes;  // empty: the call was dropped
  rpc::reply_header header;
  nfs4::CB_COMPOUND4res results;  // if the header says success and the call was a CB_COMPOUND

  nfs4::nfsstat4 status() const { return results.status; }
  nfs4::nfsstat4 status(size_t i) const { return results.resarray.at(i).status(); }
};

class CallbackCaller {
 public:
  static constexpr uint32_t kXid = 0x01020304;
  static nfs4::sessionid4 session(unsigned n);

  CallbackCaller();

  // --- building ---
  struct Header {
    uint32_t xid = kXid;
    uint32_t rpc_version = rpc::kRpcVersion;
    uint32_t program = client::nfs4::kCallbackProgram;
    uint32_t version = client::nfs4::kCallbackVersion;
    uint32_t procedure = 1;
    rpc::opaque_auth credential{};
  };
  static ByteVector call(const Header& header, ConstBytes arguments);
  static ByteVector encode(const nfs4::CB_COMPOUND4args& args);
  // The next request in `slot`: advances its sequence ID.
  nfs4::CB_SEQUENCE4args sequence(uint32_t slot = 0, bool cache_this = false);

  template <class... Args>
  static nfs4::CB_COMPOUND4args compound(const Args&... ops) {
    nfs4::CB_COMPOUND4args args;
    (args.argarray.push_back({ops}), ...);
    return args;
  }

  // --- calling ---
  ByteVector send(ByteVector call) { return run_on(*loop, server.serve(std::move(call))); }
  CallbackReply send_arguments(ConstBytes arguments) { return read(send(call({}, arguments))); }
  CallbackReply send(const nfs4::CB_COMPOUND4args& args) { return send_arguments(encode(args)); }
  static CallbackReply read(ByteVector reply);
  // CB_SEQUENCE in slot 0, then `ops`.
  template <class... Args>
  CallbackReply ask(const Args&... ops) {
    return send(compound(sequence(), ops...));
  }

  LoopThread loop;
  client::nfs4::SlotTable slots;
  client::nfs4::NodeTable nodes;
  // Adds a delegation of the file, as an OPEN's reply does.
  client::nfs4::DelegationRef grant(const nfs4::nfs_fh4& fh, const nfs4::stateid4& stateid,
                                    bool write = false);
  void returned(const client::nfs4::DelegationRef& delegation) {
    delegations.remove(delegation, client::nfs4::Delegations::Went::kReturned);
  }

  client::nfs4::Delegations delegations;
  client::nfs4::CallbackServer server{slots, nodes, delegations};

 private:
  std::array<uint32_t, 64> sequences_{};
};

}  // namespace nfsrdma::test
