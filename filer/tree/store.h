// SPDX-License-Identifier: Apache-2.0
// Store: what keeps the objects of exported file systems. MemoryStore keeps them in memory, HostStore in a
// directory of the host.
//
// A store knows POSIX, not NFS: locks, delegations and most permissions are decided above it (access.h,
// nfs/). What it answers with are the nfsstat4 of RFC 8881 section 15.2. Names have been checked by the tree:
// they are one component. `who` is as whom the host acts (access.h, acting()); memory does not look at it.
// Operations leave the attributes of the nodes they were given up to date. Owner: Tree. Under the server's
// lock; calls may block for as long as the host's file system does.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "filer/tree/node.h"
#include "xdr/support/bytes.h"

namespace nfsrdma::filer {

// What a new object begins with.
struct Initial {
  nfs4::nfs_ftype4 type = nfs4::NF4REG;
  uint32_t mode = 0644;
  uint32_t uid = 0;  // owner and group: for memory. The host makes the caller the owner.
  uint32_t gid = 0;
  std::string target{};      // NF4LNK
  nfs4::specdata4 device{};  // NF4BLK, NF4CHR
};

// A SETATTR that has been found allowed; what is absent stays.
struct NewAttributes {
  std::optional<uint32_t> mode{};
  std::optional<uint32_t> uid{};
  std::optional<uint32_t> gid{};
  std::optional<nfs4::settime4> accessed{};
  std::optional<nfs4::settime4> modified{};

  bool empty() const { return !mode && !uid && !gid && !accessed && !modified; }
};

// An entry of a directory.
struct NamedNode {
  uint64_t cookie = 0;  // 3 and more (RFC 8881 section 18.23.3)
  std::string name;
  NodePtr node;
  nfs4::nfsstat4 error = nfs4::NFS4_OK;  // why there is no node: the entry exists and may not be looked at

  bool end() const { return node == nullptr && error == nfs4::NFS4_OK; }
};

class Store {
 public:
  using Status = nfs4::nfsstat4;

  virtual ~Store() = default;

  // The part of a filehandle that names an object of the file system; at most kMaxHandleBytes.
  static constexpr size_t kMaxHandleBytes = nfs4::NFS4_FHSIZE - 8;
  virtual ByteVector handle(const Node& node) const = 0;
  virtual Answer<NodePtr> find(const FileSystem& fs, ConstBytes handle) = 0;  // BADHANDLE, STALE
  // Looks at the object again: its attributes are then those of now. STALE when it is gone.
  virtual Status refresh(Node& node) = 0;
  // Brings bytes_* and files_* of the file system up to date.
  virtual void measure(FileSystem& fs) = 0;
  // As permissions() of access.h, for a node that has_acl.
  virtual uint32_t acl_permissions(const Node& node, const Principal& who) = 0;
  // What the attribute `acl` says; empty where it cannot be told.
  virtual std::vector<nfs4::nfsace4> acl(const Node&) { return {}; }

  virtual Answer<NodePtr> child(Node& dir, std::string_view name) = 0;
  virtual Answer<NodePtr> parent(Node& dir) = 0;  // null: above the file system's root
  // The first entry behind `cookie` (0: the first of all).
  virtual Answer<NamedNode> next(Node& dir, uint64_t cookie) = 0;
  // Whether `cookie` may have been given out by this directory.
  virtual bool issued(const Node& dir, uint64_t cookie) const = 0;

  virtual Answer<NodePtr> create(Node& dir, std::string_view name, const Initial& initial,
                                 const Principal& who) = 0;
  virtual Status link(Node& node, Node& dir, std::string_view name, const Principal& who) = 0;
  virtual Status remove(Node& dir, std::string_view name, const Principal& who) = 0;
  virtual Status rename(Node& from, std::string_view old_name, Node& to, std::string_view new_name,
                        const Principal& who) = 0;
  virtual Status set(Node& node, const NewAttributes& attributes, const Principal& who) = 0;

  // Appends `bytes` from `offset` on to `to`, fewer only at the end of the file, and says how many. What it
  // has appended when it fails is the caller's to take away.
  virtual Answer<size_t> read(Node& file, uint64_t offset, size_t bytes, ByteVector& to) = 0;
  virtual Status write(Node& file, uint64_t offset, ConstBytes data, bool stable, const Principal& who) = 0;
  virtual Status resize(Node& file, uint64_t size, const Principal& who) = 0;
  virtual Status commit(Node& file, uint64_t offset, uint64_t length) = 0;  // length 0: to the end
  // Whether data that was taken as unstable may be lost since this was last asked: writing it out has failed,
  // which the host says of all writers of the file once.
  bool take_loss() { return std::exchange(loss_, false); }
  virtual Answer<std::string> read_link(Node& link, const Principal& who) = 0;
  // An access that the host does not see by itself.
  virtual void accessed(Node& node) = 0;

  // Opens keep unlinked files alive. release() of the last hold of a file without names ends it.
  virtual void hold(Node& node) { ++node.holds; }
  virtual void release(Node& node) = 0;
  // A restart of the server: all holds are forgotten, and what only its memory had. Unlinked files stay for
  // reclaim until forget_unlinked(), where they can.
  virtual void crash(bool lose_unstable) = 0;
  virtual void forget_unlinked() = 0;

  // Objects that others have removed are let go of: a part of all each time, once a second.
  virtual void forget_removed() {}
  // How many objects there are descriptors for, and how many there may be, where too many open files cannot
  // do without theirs (Node::pinned).
  struct Crowd {
    size_t kept = 0;
    size_t most = SIZE_MAX;
  };
  virtual Crowd crowd() { return {}; }
  // Whose `pinned` is another than when this was last asked.
  std::vector<NodeId> take_pins_moved() { return std::exchange(pins_moved_, {}); }

 protected:
  void note_loss() { loss_ = true; }
  std::vector<NodeId> pins_moved_;

 private:
  bool loss_ = false;
};

}  // namespace nfsrdma::filer
