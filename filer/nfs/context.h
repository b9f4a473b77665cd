// SPDX-License-Identifier: Apache-2.0
// Context: what the operations of one COMPOUND share (RFC 8881 section 16.2.3.1).
//
// It exists as long as the COMPOUND and is used under the server's lock. Code that keeps a Context while the
// lock is released must look up session and client again, because both may be gone.
#pragma once

#include <cstdint>

#include "filer/nfs/core.h"

namespace nfsrdma::filer::nfs {

// A filehandle of the COMPOUND with its associated stateid.
struct Place {
  tree::NodePtr node;
  nfs4::stateid4 stateid;  // all zeros: none
};

struct Context {
  Context(Core& server, links::LinkPtr from, tree::Principal caller)
      : core(server), link(std::move(from)), who(std::move(caller)) {}

  Core& core;
  links::LinkPtr link;
  tree::Principal who;

  // Set by SEQUENCE; null in a COMPOUND without it.
  state::Session* session = nullptr;
  state::Client* client = nullptr;
  nfs4::SEQUENCE4args sequence;

  Place current;
  Place saved;

  uint32_t index = 0;       // of the current operation
  uint32_t operations = 0;  // of the COMPOUND
  size_t room = 0;          // bytes that the result may take, including opnum and status

  // The RPC reply as encoded so far: space for its header, then COMPOUND4res.
  ByteVector reply;
  size_t result_at = 0;  // offset of the current operation's result in `reply`
  std::string name;      // for the journal

  uint64_t began = 0;  // StateTable::delegations_moved() when the COMPOUND began
  // Explains NFS4ERR_DELAY: a conflicting delegation is being recalled, or its holder is being asked
  // (CB_GETATTR), so a short wait may help.
  bool delegation_in_the_way = false;

  bool last() const { return index + 1 == operations; }
  bool alone() const { return operations == 1; }

  // "If an operation sets the current filehandle but does not return a stateid, the current stateid MUST be
  // set to the all-zeros special stateid".
  void go_to(tree::NodePtr node) { current = {std::move(node), {}}; }

  // Bytes of opnum, status, eof and length in front of READ's data. The data is read directly after them in
  // `reply`, so it is copied only once between file and connection.
  static constexpr size_t kBeforeData = 16;
  // Prepares `reply` so that `bytes` of READ's data can be appended to it.
  ByteVector& data_room(size_t bytes) {
    // For the following operations, so that their results do not move the data.
    constexpr size_t kBehind = 1024;
    reply.reserve(result_at + kBeforeData + xdr_padded(bytes) + kBehind);
    reply.resize(result_at + kBeforeData);
    return reply;
  }
};

// First check of most operations: NFS4ERR_NOFILEHANDLE without a current filehandle, NFS4ERR_STALE if its
// object is gone. It also refreshes the object's attributes.
nfs4::nfsstat4 need_current(const Context& c);

// Builds the change_info4 of a directory: construct it before the change, call done() after it.
class ChangeInfo {
 public:
  ChangeInfo(const Context& c, tree::NodePtr dir)
      : atomic_(c.core.switches.atomic_change_info && dir->fs->atomic_changes),
        tree_(c.core.tree),
        dir_(std::move(dir)),
        before_(tree_.told_change(*dir_)) {}
  nfs4::change_info4 done() const { return {atomic_, before_, tree_.told_change(*dir_)}; }

 private:
  bool atomic_;
  const tree::Tree& tree_;
  tree::NodePtr dir_;
  nfs4::changeid4 before_;
};

}  // namespace nfsrdma::filer::nfs
