// SPDX-License-Identifier: Apache-2.0
// Work: one work request of a send queue, from being asked for to being over.
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
    kBind,        // of a memory window
    kInvalidate,  // of a bound window
    kAskPeer,     // a zero-length RDMA Write
  };
  Kind kind = Kind::kAskPeer;
  std::optional<Cookie> cookie;  // kWrite, kRead: on_completed(); kInvalidate: on_invalidated()

  // kSend.
  std::optional<unsigned> slot;  // where its bytes are; else here, until there is one
  ByteVector bytes;
  size_t size = 0;
  uint32_t invalidate = 0;  // also kInvalidate: the handle
  bool solicited = false;

  // kWrite, kRead: the local side, as it is registered, and the peer's.
  MutableBytes local;
  rpcrdma::segment remote;
  Owner owner;
  Slice copy;           // stands for memory that is not registered...
  MutableBytes target;  // ...and, of a Read, where its data belongs in the end

  // kBind: `window`, over `local`, which is registered as `under`; its handle is `invalidate`.
  ibv_mw* window = nullptr;
  ibv_mr* under = nullptr;
  unsigned rights = 0;

  Registration registration;  // of `local`; kWrite, kRead

  // That it holds until it has left; a Read holds what is asked for, not what the peer makes us keep.
  size_t held_bytes() const { return kind == Kind::kSend ? size : kind == Kind::kWrite ? local.size() : 0; }
  // Whether anybody waits for its end.
  bool awaited() const { return kind != Kind::kSend && kind != Kind::kBind; }
};

using WorkPtr = std::unique_ptr<Work>;

// What is over is used again: two of them pass through every queue of an endpoint for each call.
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
    if (spare_.size() >= kMost) return;  // all that it held goes with it
    work->registration.reset();          // before the memory it is of
    *work = Work{};
    spare_.push_back(std::move(work));
  }

 private:
  static constexpr size_t kMost = 256;
  std::vector<WorkPtr> spare_;
};

}  // namespace nfsrdma::fabric::verbs
