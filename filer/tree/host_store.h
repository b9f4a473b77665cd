// SPDX-License-Identifier: Apache-2.0
// HostStore: one directory of the host as a file system.
//
// Confinement: every object is reached by one component at a time from a descriptor (O_NOFOLLOW), or by a
// sealed identity (host_locator.h); symbolic links are never followed, ".." only upwards inside of the
// export, and what is mounted inside of it is neither listed nor entered (ACCESS). A directory that somebody
// on the host moves out of the export stays reachable for who has its filehandle, as with any NFS server that
// does not check subtrees; its ".." does not.
//
// Rights: where the process may act as its callers (root), what creates, removes, renames and sets attributes
// is done as the caller, so that the host's own rules hold, ACLs and quotas included; data is written as the
// caller and read as the server, through descriptors of the server's, after the checks of access.h. Otherwise
// every caller is the user the process runs as.
//
// The change attribute is ctime in nanoseconds, and a count where ctime alone would not move: the host's
// clock ticks every few milliseconds. Changes made through the server always move it. A change by somebody
// else is seen when ctime, size, links or mode have moved; one that falls into the same tick as another of
// his is seen as soon as the tick is over.
//
// System calls block the server's loop for as long as the host's disk takes: a deliberate limit of this
// server, which has one loop and one lock. Owner: Tree. Under the server's lock.
#pragma once

#include <cstdint>
#include <list>
#include <unordered_map>

#include "filer/tree/caller_thread.h"
#include "filer/tree/host_listing.h"
#include "filer/tree/host_locator.h"
#include "filer/tree/store.h"
#include "xdr/support/result.h"

namespace nfsrdma::filer {

class HostStore final : public Store {
 public:
  // Fills `fs`. Errors: what the system says to opening the directory.
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
  // An object that has been seen lately.
  struct HostNode final : Node {
    std::string identity;
    Fd path;    // O_PATH
    Fd reader;  // of regular files, from their first READ or WRITE on
    Fd writer;
    int64_t ctime = 0;      // nanoseconds, as last seen
    bool doubtful = false;  // ctime was so fresh that another change may have had the same
    bool unstable = false;  // written and not committed since: the descriptor knows of errors
    std::optional<HostListing> listing;
    bool put_away = false;                  // it has no descriptors
    bool forgotten = false;                 // not in nodes_ any more: the object has another node, or none;
                                            // what has no name then has no descriptors either
    std::list<std::string>::iterator used;  // in order_, or in put_away_
  };
  using HostNodePtr = std::shared_ptr<HostNode>;
  enum class Seen : uint8_t { kLooking, kOwnChange };

  HostStore(const HostExport& what, const HandleKey& key, FileSystem& fs, Fd root,
            std::shared_ptr<NodeId> next_id);

  static HostNode& of_host(Node& node) { return static_cast<HostNode&>(node); }
  static const HostNode& of_host(const Node& node) { return static_cast<const HostNode&>(node); }

  // The node of the object behind `fd`, which it may keep.
  Answer<HostNodePtr> adopt(Fd fd, Seen how);
  Answer<HostNodePtr> child_node(HostNode& dir, std::string_view name, Seen how);
  void take(HostNode& node, const struct statx& facts, Seen how);
  Status look(HostNode& node, Seen how);
  // After a change of ours.
  void changed(Node& node) { look(of_host(node), Seen::kOwnChange); }
  // A descriptor of the node, opened again if need be.
  Answer<int> path_of(HostNode& node);
  Answer<int> reader_of(HostNode& file);
  Answer<int> writer_of(HostNode& file);
  bool inside(int directory) const;
  bool may_search(HostNode& dir);
  Status make_object(int directory, const std::string& name, const Initial& initial, const Principal& who,
                     Fd& file);
  // What was done in this directory reaches the disk before it is answered, where that is wanted.
  void settle(HostNode& node);
  void use(HostNode& node);
  void make_room();
  bool can_be_opened_again(const HostNode& node);
  void set_pinned(HostNode& node, bool pinned);
  void write_out(HostNode& node);
  void put_away(HostNode& node);
  void forget(HostNode& node);
  // After what may have been the last use of its data.
  void close_data(HostNode& node);

  FileSystem& fs_;
  Fd root_fd_;
  bool sync_;
  bool modes_say_all_;  // who may do what is decided by mode, owner and ACL alone
  SipHash cookie_hash_;
  HostLocator locator_;
  CallerThread callers_;
  std::shared_ptr<NodeId> next_id_;
  const size_t most_nodes_;                             // with descriptors
  std::unordered_map<std::string, HostNodePtr> nodes_;  // by identity
  std::list<std::string> order_;                        // identities, least lately used first
  std::list<std::string> put_away_;
  size_t next_bucket_ = 0;  // of nodes_: forget_removed()
  NodePtr root_;
};

}  // namespace nfsrdma::filer
