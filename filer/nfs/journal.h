// SPDX-License-Identifier: Apache-2.0
// Journal: which operations the server has executed, so that a test can assert "RENAME was executed exactly
// once".
//
// It counts every executed operation, in all and per object. Replies from the reply cache and operations that
// a fault answered are not counted. It keeps the last kKeptCompounds COMPOUNDs with their operations and
// statuses. Guarded by the server's lock; Server hands out copies.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "filer/links/link.h"
#include "filer/tree/node.h"
#include "xdr/nfs4/compound.h"

namespace nfsrdma::filer::nfs {

struct ExecutedOp {
  nfs4::nfs_opnum4 op = nfs4::OP_ILLEGAL;
  nfs4::nfsstat4 status = nfs4::NFS4_OK;
  // The current filehandle's object: after the operation for LOOKUP, OPEN and CREATE, before it for all
  // others.
  tree::NodeId node = 0;
  std::string name;       // the name in the arguments; "old -> new" for RENAME
  bool injected = false;  // answered by a fault, not executed
};

struct ExecutedCompound {
  uint64_t number = 0;  // 1, 2, 3... in the order in which execution began
  links::LinkId link = 0;
  rpc::Xid xid{};
  tree::Principal who;
  nfs4::clientid4 client = 0;
  nfs4::SEQUENCE4args sequence;  // empty if the COMPOUND had no SEQUENCE
  bool replay = false;           // answered from the reply cache
  nfs4::nfsstat4 status = nfs4::NFS4_OK;
  std::vector<ExecutedOp> ops;

  bool has(nfs4::nfs_opnum4 op) const {
    for (const ExecutedOp& e : ops) {
      if (e.op == op) return true;
    }
    return false;
  }
};

class Journal {
 public:
  static constexpr size_t kKeptCompounds = 1 << 14;

  struct Count {
    uint64_t executed = 0;
    uint64_t succeeded = 0;
  };

  void record(ExecutedCompound compound) {
    compound.number = ++compounds_;
    if (compound.replay) ++replays_;
    for (const ExecutedOp& op : compound.ops) {
      if (compound.replay || op.injected) continue;
      count(ops_[op.op], op);
      if (op.node != 0) count(per_node_[{op.op, op.node}], op);
    }
    log_.push_back(std::move(compound));
    if (log_.size() > kKeptCompounds) log_.pop_front();
  }

  Count count(nfs4::nfs_opnum4 op) const { return look_up(ops_, op); }
  Count count(nfs4::nfs_opnum4 op, tree::NodeId node) const {
    return look_up(per_node_, std::pair(op, node));
  }
  uint64_t replays() const { return replays_; }
  const std::deque<ExecutedCompound>& log() const { return log_; }
  void clear() { *this = Journal{}; }

 private:
  static void count(Count& c, const ExecutedOp& op) {
    ++c.executed;
    if (op.status == nfs4::NFS4_OK) ++c.succeeded;
  }
  template <class Map, class Key>
  static Count look_up(const Map& map, const Key& key) {
    const auto at = map.find(key);
    return at == map.end() ? Count{} : at->second;
  }

  std::map<nfs4::nfs_opnum4, Count> ops_;
  std::map<std::pair<nfs4::nfs_opnum4, tree::NodeId>, Count> per_node_;
  std::deque<ExecutedCompound> log_;
  uint64_t compounds_ = 0;
  uint64_t replays_ = 0;
};

}  // namespace nfsrdma::filer::nfs
