// SPDX-License-Identifier: Apache-2.0
// HostStore: one directory of the host as a file system.
//
// Confinement: an object is opened one component at a time from a descriptor (O_NOFOLLOW), or by its sealed
// identity (host_locator.h). Symbolic links are never followed, ".." leads upwards only within the export,
// and file systems mounted inside are neither listed nor entered (ACCESS). If a directory is moved out of the
// export on the host, a client with its filehandle can still use it, as with any NFS server without subtree
// checking; its ".." is not accessible.
//
// Rights: a server that runs as root creates, removes, renames and sets attributes as the caller, so the
// host's rules apply, including ACLs and quotas. It writes data as the caller and reads it as the server,
// through the server's own descriptors, after the checks in access.h. A server that does not run as root does
// everything as its own user.
//
// Change attribute: ctime in nanoseconds, and a counter for changes within one tick of the host's clock,
// which is some milliseconds. Every change through the server changes it. A change by another program is
// noticed by ctime, size, link count or mode; a second one in the same tick is noticed when the tick is over.
//
// System calls block the server's loop for as long as the host's disk takes. This is a deliberate limit of a
// server with one loop and one lock. Tree owns the object. Under the server's lock.
#pragma once

#include <chrono>
#include <cstdint>
#include <list>
#include <unordered_map>

#include "filer/tree/caller_thread.h"
#include "filer/tree/host_listing.h"
#include "filer/tree/host_locator.h"
#include "filer/tree/store.h"
#include "xdr/support/result.h"

namespace nfsrdma::filer::tree {

class HostStore final : public Store {
 public:
  // Two of the kernel's longest clock ticks. No later change gets a ctime that is older than this.
  static constexpr std::chrono::nanoseconds kTick = std::chrono::milliseconds(20);

  // Also fills `fs`. Errors: the system's error for opening the directory.
  static Result<std::unique_ptr<HostStore>> open(const HostExport& what, const HandleKey& key, FileSystem& fs,
                                                 std::shared_ptr<NodeId> next_id);

  const NodePtr& root() const { return root_; }

  ByteVector handle(const Node& node) const override;
  Answer<NodePtr> find(const FileSystem& fs, ConstBytes handle) override;
  Status refresh(Node& node) override;
  void measure(FileSystem& fs) override;
  uint32_t acl_permissions(const Node& node, const Principal& who) override;

  Answer<NodePtr> child(Node& dir, std::string_view name) override;
  Answer<NodePtr> parent(Node& dir) override;
  Answer<NamedNode> next(Node& dir, uint64_t cookie) override;
  bool issued(const Node& dir, uint64_t cookie) const override;

  Answer<NodePtr> create(Node& dir, std::string_view name, const Initial& initial,
                         const Principal& who) override;
  Status link(Node& node, Node& dir, std::string_view name, const Principal& who) override;
  Status remove(Node& dir, std::string_view name, const Principal& who) override;
  Status rename(Node& from, std::string_view old_name, Node& to, std::string_view new_name,
                const Principal& who) override;
  Status set(Node& node, const NewAttributes& attributes, const Principal& who) override;

  Answer<size_t> read(Node& file, uint64_t offset, size_t bytes, ByteVector& to) override;
  Status write(Node& file, uint64_t offset, ConstBytes data, bool stable, const Principal& who) override;
  Status resize(Node& file, uint64_t size, const Principal& who) override;
  Status commit(Node& file, uint64_t offset, uint64_t length) override;
  Answer<std::string> read_link(Node& link, const Principal& who) override;
  void accessed(Node&) override {}

  void release(Node& node) override;
  void crash(bool lose_unstable) override;
  void forget_unlinked() override;
  void forget_removed() override;
  Crowd crowd() override;

 private:
  // An object that was used recently.
  struct HostNode final : Node {
    std::string identity;
    Fd path;    // O_PATH
    Fd reader;  // regular files, from their first READ or WRITE on
    Fd writer;
    int64_t ctime = 0;      // nanoseconds; the value seen last
    bool doubtful = false;  // the ctime was recent: a later change may have the same one
    bool unstable = false;  // has uncommitted data; `writer` would report write errors
    std::optional<HostListing> listing;
    bool put_away = false;  // has no descriptors
    // Removed from nodes_: the object has another node, or none. If the object has no name, the descriptors
    // are closed.
    bool forgotten = false;
    std::list<std::string>::iterator used;  // position in order_ or put_away_
  };
  using HostNodePtr = std::shared_ptr<HostNode>;
  enum class Seen : uint8_t { kLooking, kOwnChange };

  HostStore(const HostExport& what, const HandleKey& key, FileSystem& fs, Fd root,
            std::shared_ptr<NodeId> next_id);

  static HostNode& of_host(Node& node) { return static_cast<HostNode&>(node); }
  static const HostNode& of_host(const Node& node) { return static_cast<const HostNode&>(node); }

  // The node for the object behind `fd`; it may take the descriptor.
  Answer<HostNodePtr> adopt(Fd fd, Seen how);
  Answer<HostNodePtr> child_node(HostNode& dir, std::string_view name, Seen how);
  void take(HostNode& node, const struct statx& facts, Seen how);
  Status look(HostNode& node, Seen how);
  // Called after a change through the server.
  void changed(Node& node) { look(of_host(node), Seen::kOwnChange); }
  // A descriptor of the node; opened again if it was closed.
  Answer<int> path_of(HostNode& node);
  Answer<int> reader_of(HostNode& file);
  Answer<int> writer_of(HostNode& file);
  bool inside(int directory) const;
  bool may_search(HostNode& dir);
  Status make_object(int directory, const std::string& name, const Initial& initial, const Principal& who,
                     Fd& file);
  // With `sync`, writes the changes of this directory or file to disk before the reply.
  void settle(HostNode& node);
  void use(HostNode& node);
  void make_room();
  bool can_be_opened_again(const HostNode& node);
  void set_pinned(HostNode& node, bool pinned);
  void write_out(HostNode& node);
  void put_away(HostNode& node);
  void forget(HostNode& node);
  // Closes the data descriptors if the file's data is not in use any more.
  void close_data(HostNode& node);

  FileSystem& fs_;
  Fd root_fd_;
  bool sync_;
  bool modes_say_all_;  // mode, owner and ACL alone decide about permissions
  SipHash cookie_hash_;
  HostLocator locator_;
  CallerThread callers_;
  std::shared_ptr<NodeId> next_id_;
  const size_t most_nodes_;                             // limit for nodes with descriptors
  std::unordered_map<std::string, HostNodePtr> nodes_;  // by identity
  std::list<std::string> order_;     // identities of nodes with descriptors, least recently used first
  std::list<std::string> put_away_;  // the same of nodes without descriptors
  size_t next_bucket_ = 0;           // of nodes_, where forget_removed() continues
  NodePtr root_;
};

}  // namespace nfsrdma::filer::tree
