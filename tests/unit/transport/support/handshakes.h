// SPDX-License-Identifier: Apache-2.0
// A handshake for tests: one call, with argument 1000, on every new connection. Records the result of each.
#pragma once

#include <atomic>
#include <vector>

#include "tests/unit/transport/support/rig.h"

namespace nfsrdma::test {

struct Handshakes {
  std::atomic<int> begun{0};
  std::atomic<int> failed{0};
  std::vector<Recovery> recoveries;
};

inline Task<Result<>> shake(Handshakes* h, rpc::RpcTransport* t) {
  ++h->begun;
  rpc::Call c;
  c.op = "HELLO";
  c.head = call_head(words({1000}));
  c.handshake = true;
  rpc::Outcome o = co_await t->call(c);
  if (!o.reply) {
    ++h->failed;
    h->recoveries.push_back(o.reply.error().recovery);
    co_return fail(o.reply.error());
  }
  co_return Result<>{};
}

inline rpc::TransportHooks shaking(Handshakes* h) {
  rpc::TransportHooks hooks;
  hooks.on_connected = [h](rpc::RpcTransport& t) { return shake(h, &t); };
  return hooks;
}

}  // namespace nfsrdma::test
