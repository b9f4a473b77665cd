// SPDX-License-Identifier: Apache-2.0
// Context: what the operations of one COMPOUND see and leave to each other (RFC 8881 section 16.2.3.1).
//
// Lives as long as the COMPOUND, under the server's lock. Session and client are looked up again by whoever
// keeps a Context beyond the lock: they may be gone by then.
#pragma once

#include <cstdint>

#include "filer/nfs/core.h"

namespace nfsrdma::filer {

// A filehandle of the COMPOUND with "the stateid that is associated" with it.
struct Place {
  NodePtr node;
  nfs4::stateid4 stateid;  // all zeros: none
};

struct Context {
  Context(Core& server, LinkPtr from, Principal caller)
      : core(server), link(std::move(from)), who(std::move(caller)) {}

  Core& core;
  LinkPtr link;
  Principal who;

  // From SEQUENCE; null in the COMPOUNDs that go without.
  Session* session = nullptr;
  Client* client = nullptr;
  nfs4::SEQUENCE4args sequence;

  Place current;
  Place saved;

  uint32_t index = 0;       // of the operation that is executed
  uint32_t operations = 0;  // of the COMPOUND
  size_t room = 0;          // bytes that the result may take, opnum and status included

  // The RPC reply as far as it is encoded: room for its header, then COMPOUND4res.
  ByteVector reply;
  size_t result_at = 0;  // where the result of the operation that is executed begins in `reply`
  std::string name;      // for the journal

  uint64_t began = 0;  // StateTable::delegations_moved() of then
  // NFS4ERR_DELAY is because of a delegation: its holder has been asked, and it may be over soon.
  bool delegation_in_the_way = false;

  bool last() const { return index + 1 == operations; }
  bool alone() const { return operations == 1; }

  // "If an operation sets the current filehandle but does not return a stateid, the current stateid MUST be
  // set to the all-zeros special stateid".
  void go_to(NodePtr node) { current = {std::move(node), {}}; }

  // READ's data stands in `reply` behind opnum, status, eof and length: appended there, it is copied once
  // between the file and the connection.
  static constexpr size_t kBeforeData = 16;
  // `reply`, with its end where `bytes` of READ's data are to begin.
  ByteVector& data_room(size_t bytes) {
    constexpr size_t kBehind = 1024;  // for the operations that follow: no other copy for their results
    reply.reserve(result_at + kBeforeData + xdr_padded(bytes) + kBehind);
    reply.resize(result_at + kBeforeData);
    return reply;
  }
};

// The usual beginning: NOFILEHANDLE without a current filehandle, STALE when its object is gone. Its
// attributes are those of now.
nfs4::nfsstat4 need_current(const Context& c);

// A change_info4 of a directory, before and after.
class ChangeInfo {
 public:
  ChangeInfo(const Context& c, NodePtr dir)
      : atomic_(c.core.switches.atomic_change_info && dir->fs->atomic_changes),
        tree_(c.core.tree),
        dir_(std::move(dir)),
        before_(tree_.told_change(*dir_)) {}
  nfs4::change_info4 done() const { return {atomic_, before_, tree_.told_change(*dir_)}; }

 private:
  bool atomic_;
  const Tree& tree_;
  NodePtr dir_;
  nfs4::changeid4 before_;
};

}  // namespace nfsrdma::filer
