// SPDX-License-Identifier: Apache-2.0
// Work: one work request of a send queue, from the request for it until its end.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "transport/fabric/fabric.h"
#include "transport/fabric/verbs/domain.h"

namespace nfsrdma::fabric::verbs {

struct Work {
  enum class Kind : uint8_t {
    kSend,
    kWrite,
    kRead,
    kBind,        // binds a memory window
    kInvalidate,  // invalidates a bound window
    kAskPeer,     // a zero-length RDMA Write
  };
  Kind kind = Kind::kAskPeer;
  std::optional<Cookie> cookie;  // kWrite, kRead: on_completed(); kInvalidate: on_invalidated()

  // kSend.
  std::optional<unsigned> slot;  // the piece that has its bytes; until there is one, they are in `bytes`
  ByteVector bytes;
  size_t size = 0;
  uint32_t invalidate = 0;  // also kInvalidate: the handle
  bool solicited = false;

  // kWrite, kRead: the registered local side, and the peer's side.
  MutableBytes local;
  rpcrdma::segment remote;
  Owner owner;
  Slice copy;           // replaces memory that is not registered...
  MutableBytes target;  // ...and for a Read, the final target of its data

  // kBind: binds `window` over `local`, which is registered as `under`; the new handle is `invalidate`.
  ibv_mw* window = nullptr;
  ibv_mr* under = nullptr;
  unsigned rights = 0;

  Registration registration;  // of `local`; kWrite, kRead

  // Bytes held here until the work has been sent. A Read counts 0: we asked for its data, the peer does not
  // make us hold it.
  size_t held_bytes() const { return kind == Kind::kSend ? size : kind == Kind::kWrite ? local.size() : 0; }
  // True if somebody waits for its end.
  bool awaited() const { return kind != Kind::kSend && kind != Kind::kBind; }
};

using WorkPtr = std::unique_ptr<Work>;

// Reuses Work objects: two of them pass through every queue of an endpoint for each call.
class WorkPool {
 public:
  WorkPtr take(Work::Kind kind) {
    WorkPtr work;
    if (spare_.empty()) {
      work = std::make_unique<Work>();
    } else {
      work = std::move(spare_.back());
      spare_.pop_back();
    }
    work->kind = kind;
    return work;
  }
  void give_back(WorkPtr work) {
    if (spare_.size() >= kMost) return;  // destroys the work and all that it holds
    work->registration.reset();          // before the memory that is registered
    *work = Work{};
    spare_.push_back(std::move(work));
  }

 private:
  static constexpr size_t kMost = 256;
  std::vector<WorkPtr> spare_;
};

}  // namespace nfsrdma::fabric::verbs
