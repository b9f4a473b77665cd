// SPDX-License-Identifier: Apache-2.0
// Store: keeps the objects of exported file systems. MemoryStore keeps them in memory, HostStore in a
// directory of the host.
//
// A store implements POSIX rules. Locks, delegations and most permissions are checked above it (access.h,
// nfs/). Errors are the nfsstat4 of RFC 8881 section 15.2. The tree has checked names: each is one component.
// `who` is the principal with whose identity HostStore acts (acting() in access.h); MemoryStore ignores it.
// Operations leave the attributes of their nodes up to date. Tree owns the stores. Under the server's lock;
// calls may block while the host's file system does.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "filer/tree/node.h"
#include "xdr/support/bytes.h"

namespace nfsrdma::filer::tree {

// The first attributes of a new object.
struct Initial {
  nfs4::nfs_ftype4 type = nfs4::NF4REG;
  uint32_t mode = 0644;
  uint32_t uid = 0;  // owner and group: used by memory only; on the host the caller owns the object
  uint32_t gid = 0;
  std::string target{};      // NF4LNK
  nfs4::specdata4 device{};  // NF4BLK, NF4CHR
};

// The attributes of a SETATTR whose permissions were checked; absent ones stay.
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
  uint64_t cookie = 0;  // at least 3 (RFC 8881 section 18.23.3)
  std::string name;
  NodePtr node;
  nfs4::nfsstat4 error = nfs4::NFS4_OK;  // why `node` is null: the entry exists but is not accessible

  bool end() const { return node == nullptr && error == nfs4::NFS4_OK; }
};

class Store {
 public:
  using Status = nfs4::nfsstat4;

  virtual ~Store() = default;

  // The store's part of a filehandle; at most kMaxHandleBytes.
  static constexpr size_t kMaxHandleBytes = nfs4::NFS4_FHSIZE - 8;
  virtual ByteVector handle(const Node& node) const = 0;
  virtual Answer<NodePtr> find(const FileSystem& fs, ConstBytes handle) = 0;  // BADHANDLE, STALE
  // Updates the node's attributes. NFS4ERR_STALE if the object is gone.
  virtual Status refresh(Node& node) = 0;
  // Updates bytes_* and files_* of the file system.
  virtual void measure(FileSystem& fs) = 0;
  // As permissions() in access.h, for a node with has_acl.
  virtual uint32_t acl_permissions(const Node& node, const Principal& who) = 0;
  // The value of the attribute `acl`; empty if it is not available.
  virtual std::vector<nfs4::nfsace4> acl(const Node&) { return {}; }

  virtual Answer<NodePtr> child(Node& dir, std::string_view name) = 0;
  virtual Answer<NodePtr> parent(Node& dir) = 0;  // null above the file system's root
  // The first entry after `cookie` (0: the first entry).
  virtual Answer<NamedNode> next(Node& dir, uint64_t cookie) = 0;
  // Whether this directory may have assigned `cookie`.
  virtual bool issued(const Node& dir, uint64_t cookie) const = 0;

  virtual Answer<NodePtr> create(Node& dir, std::string_view name, const Initial& initial,
                                 const Principal& who) = 0;
  virtual Status link(Node& node, Node& dir, std::string_view name, const Principal& who) = 0;
  virtual Status remove(Node& dir, std::string_view name, const Principal& who) = 0;
  virtual Status rename(Node& from, std::string_view old_name, Node& to, std::string_view new_name,
                        const Principal& who) = 0;
  virtual Status set(Node& node, const NewAttributes& attributes, const Principal& who) = 0;

  // Appends up to `bytes` bytes from `offset` on to `to` and returns how many; fewer only at the end of the
  // file. On an error the caller removes what was appended.
  virtual Answer<size_t> read(Node& file, uint64_t offset, size_t bytes, ByteVector& to) = 0;
  virtual Status write(Node& file, uint64_t offset, ConstBytes data, bool stable, const Principal& who) = 0;
  virtual Status resize(Node& file, uint64_t size, const Principal& who) = 0;
  // Length 0: to the end of the file.
  virtual Status commit(Node& file, uint64_t offset, uint64_t length) = 0;
  // Whether unstable data may have been lost since the last call, because writing it to disk failed. The host
  // reports such an error once for all writers of the file.
  bool take_loss() { return std::exchange(loss_, false); }
  virtual Answer<std::string> read_link(Node& link, const Principal& who) = 0;
  // Records an access by READDIR. HostStore does nothing, because the host itself records accesses.
  virtual void accessed(Node& node) = 0;

  // An unlinked file stays while opens or delegations hold it. release() of its last hold deletes it.
  virtual void hold(Node& node) { ++node.holds; }
  virtual void release(Node& node) = 0;
  // A restart of the server: drops all holds and, if `lose_unstable` is set, unstable data in memory.
  // Unlinked files stay for reclaim until forget_unlinked(), if the store can keep them.
  virtual void crash(bool lose_unstable) = 0;
  virtual void forget_unlinked() = 0;

  // Lets go of objects that other programs have removed. Called once a second; each call visits a part of all
  // objects.
  virtual void forget_removed() {}
  // The number of objects with descriptors, and its limit when open files cannot give theirs up
  // (Node::pinned).
  struct Crowd {
    size_t kept = 0;
    size_t most = SIZE_MAX;
  };
  virtual Crowd crowd() { return {}; }
  // The nodes whose `pinned` has changed since the last call.
  std::vector<NodeId> take_pins_moved() { return std::exchange(pins_moved_, {}); }

 protected:
  void note_loss() { loss_ = true; }
  std::vector<NodeId> pins_moved_;

 private:
  bool loss_ = false;
};

}  // namespace nfsrdma::filer::tree
