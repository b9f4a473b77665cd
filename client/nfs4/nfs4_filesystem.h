// Nfs4Filesystem: the NFSv4.1 client behind client::Filesystem, one per mount.
//
// Owns the session, the node table with its name cache, and the state manager; the loops and the buffer pool
// are the caller's and outlive it. Its methods are spread over fs_*.cc by subject. Every method runs on its
// caller's loop; what they share is in Nfs4Node (its mutex), FileState and the caches. One COMPOUND per
// action wherever the protocol allows.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "client/filesystem.h"
#include "client/nfs4/attributes.h"
#include "client/nfs4/callback.h"
#include "client/nfs4/lock_waits.h"
#include "client/nfs4/session.h"
#include "client/nfs4/state_manager.h"
#include "client/options.h"

namespace nfsrdma::client {

class Nfs4Filesystem final : public Filesystem, private RecoveryHooks {
 public:
  Nfs4Filesystem(LoopPool& loops, BufferPool& buffers, ClientOptions options);
  ~Nfs4Filesystem() override;

  Task<Result<Entry>> mount(FrontEnd* front_end) override;
  Task<bool> unmount(Duration patience) override;
  Task<Result<Entry>> lookup(RequestContext ctx, NodeRef directory, std::string name) override;
  Task<Result<AttributesReply>> getattr(RequestContext ctx, NodeRef node, OpenFileRef file) override;
  Task<Result<AttributesReply>> setattr(RequestContext ctx, NodeRef node, SetAttributes set,
                                        OpenFileRef file) override;
  Task<Result<>> access(RequestContext ctx, NodeRef node, int mask) override;
  Task<Result<std::string>> readlink(RequestContext ctx, NodeRef node) override;
  Task<Result<Entry>> mknod(RequestContext ctx, NodeRef directory, std::string name, uint32_t mode,
                            uint32_t rdev_major, uint32_t rdev_minor) override;
  Task<Result<Entry>> mkdir(RequestContext ctx, NodeRef directory, std::string name, uint32_t mode) override;
  Task<Result<Entry>> symlink(RequestContext ctx, NodeRef directory, std::string name,
                              std::string target) override;
  Task<Result<Entry>> link(RequestContext ctx, NodeRef node, NodeRef directory, std::string name) override;
  Task<Result<>> unlink(RequestContext ctx, NodeRef directory, std::string name) override;
  Task<Result<>> rmdir(RequestContext ctx, NodeRef directory, std::string name) override;
  Task<Result<>> rename(RequestContext ctx, NodeRef from_directory, std::string from, NodeRef to_directory,
                        std::string to, unsigned flags) override;
  Task<Result<OpenReply>> open(RequestContext ctx, NodeRef node, int flags) override;
  Task<Result<CreateReply>> create(RequestContext ctx, NodeRef directory, std::string name, uint32_t mode,
                                   int flags) override;
  Task<Result<ReadReply>> read(RequestContext ctx, OpenFileRef file, uint64_t offset, size_t size) override;
  Task<Result<>> write(RequestContext ctx, OpenFileRef file, uint64_t offset, Slice data) override;
  Task<Result<>> flush(RequestContext ctx, OpenFileRef file, uint64_t lock_owner) override;
  Task<Result<>> fsync(RequestContext ctx, OpenFileRef file, bool data_only) override;
  Task<> release(RequestContext ctx, OpenFileRef file, std::optional<uint64_t> flock_owner) override;
  Task<Result<OpenDirectoryReply>> opendir(RequestContext ctx, NodeRef node) override;
  Task<Result<DirectoryPage>> readdir(RequestContext ctx, OpenDirectoryRef directory, uint64_t offset,
                                      size_t bytes, bool plus) override;
  Task<> releasedir(OpenDirectoryRef directory) override;
  Task<Result<>> fsyncdir(RequestContext ctx, OpenDirectoryRef directory) override;
  Task<Result<FilesystemStatus>> statfs(RequestContext ctx, NodeRef node) override;
  Task<Result<Lock>> getlk(RequestContext ctx, OpenFileRef file, uint64_t owner, Lock lock) override;
  Task<Result<>> setlk(RequestContext ctx, OpenFileRef file, uint64_t owner, Lock lock, bool wait) override;
  Task<Result<>> flock(RequestContext ctx, OpenFileRef file, uint64_t owner, LockType type,
                       bool wait) override;
  bool soft_timed_out() const override;
  int soft_errno() const override;
  bool responding() const override;
  Statistics statistics() const override;

 private:
  // --- fs_attributes.cc ---
  // Why attributes came: it decides what a new change attribute means for cached contents.
  enum class Cause : uint8_t {
    kAsked,    // somebody else may have changed the file
    kOwn,      // we changed it
    kOpened,   // kAsked, and the kernel's pages are dealt with by the open reply
    kCreated,  // kOpened, with the directory's lock held in the kernel: its invalidation is not waited for
  };
  // Books `from` for `node`; returns whether the kernel's pages are still good (kOpened).
  Task<bool> apply(NodeRef node, nfs4::fattr4 from, uint64_t order, Cause cause);
  // As lookup() answers it: the Node of `fh` with `from` booked.
  Task<Entry> make_entry(nfs4::nfs_fh4 fh, nfs4::fattr4 from, uint64_t order, Cause cause);
  Entry cached_entry(const NodeRef& node, Duration entry_ttl) const;
  // For the kernel, and booked as known to it.
  AttributesReply attributes_reply(const NodeRef& node) const;
  static Attributes known_attributes(const NodeRef& node);
  // With Nfs4Node::drops_under_way counted up: counts down when the kernel has no old pages or attributes.
  Task<> drop_kernel_data(NodeRef node);
  // An answer for a file that the server no longer has: what led to it is asked again. The kernel walks a
  // path anew when it gets ESTALE.
  Error gone(const NodeRef& node, Error error);
  AttributeCache::Limits limits(bool directory) const;
  bool fresh(const Nfs4Node& node) const;
  Task<Result<>> fetch_attributes(RequestContext ctx, NodeRef node, Cause cause);
  // Asks again unless fresh.
  Task<Result<>> revalidate(RequestContext ctx, NodeRef node);
  // EACCES unless the caller has every bit of `wanted`; `op` is what it is for.
  Task<Result<>> require_access(RequestContext ctx, NodeRef node, uint32_t wanted, const char* op);
  // Whether the mode lets everybody who comes through this mount search the directory, so that its names may
  // be kept by the kernel, which asks nobody before it follows one.
  bool all_may_search(const Attributes& directory) const;
  Task<Result<>> check_search(RequestContext ctx, NodeRef directory);
  Task<Result<uint32_t>> access_bits(RequestContext ctx, NodeRef node, uint32_t wanted);
  // As access_bits(), of the server, with new attributes.
  Task<Result<uint32_t>> ask_access(RequestContext ctx, NodeRef node, uint32_t wanted);
  // Books an ACCESS answer that came with attributes of this change attribute; gives what is allowed.
  uint32_t note_access(const RequestContext& ctx, Nfs4Node& n, const nfs4::ACCESS4res& answer,
                       uint64_t change);

  // --- fs_names.cc ---
  // Books a change of ours to `directory`: change_info4, and attributes asked for afterwards (null: none).
  // What it says of the names it was about: believed, if nobody else changed the directory before `after`.
  Task<NameBelief> directory_changed(NodeRef directory, nfs4::change_info4 info,
                                     Result<nfs4::GETATTR4res> after, uint64_t order);
  // The epoch of names that came after this change attribute in one COMPOUND whose attributes are booked.
  static uint64_t names_epoch(const NodeRef& directory, uint64_t change);
  // How long the kernel may believe a name of that epoch.
  Duration entry_ttl(const NodeRef& directory, uint64_t epoch) const;
  Task<Result<Entry>> lookup_on_server(RequestContext ctx, NodeRef directory, std::string name);
  Task<Result<Entry>> create_object(RequestContext ctx, NodeRef directory, std::string name,
                                    nfs4::createtype4 type, uint32_t mode);
  // What a CREATE asked for, and the directory's ctime when it did.
  struct Wanted {
    nfs4::createtype4 type;
    uint32_t mode = 0;
    timespec since{};
  };
  // The server says EXIST, and may have executed our own request before it lost its memory of it.
  Task<Result<Entry>> maybe_own_object(RequestContext ctx, NodeRef directory, std::string name, Wanted wanted,
                                       Error error);
  // Whom the server makes the owner of what a user makes: another one where it squashes that user.
  void note_owner(uint32_t uid, uint32_t owner);
  uint32_t owner_of_new(uint32_t uid) const;
  Task<Result<>> remove(RequestContext ctx, NodeRef directory, std::string name, bool is_directory);
  // Renames an open file out of the way; true when that is what `name` needed.
  // kMove: under a hidden name instead of its own; kBeside: under both.
  enum class Hide : uint8_t { kMove, kBeside };
  Task<Result<bool>> hide_open_file(RequestContext ctx, NodeRef directory, std::string name, Hide how);
  // The file keeps its name after all.
  Task<> show_again(RequestContext ctx, NodeRef node, NodeRef directory, std::string name);
  Task<Result<>> rename_on_server(RequestContext ctx, NodeRef from_directory, std::string from,
                                  NodeRef to_directory, std::string to);
  Task<> remove_hidden(rpc::CredentialPtr credential, NodeRef directory, std::string name);

  // --- fs_open.cc ---
  // A delegation that nobody asked for goes back at once.
  Task<> return_delegation(nfs4::nfs_fh4 fh, nfs4::stateid4 stateid, rpc::CredentialPtr credential);

  // --- fs_io.cc, fs_write_back.cc ---
  struct ReadPiece {
    BulkData data;
    bool eof = false;
  };
  // One READ of destination.size() bytes.
  Task<Result<ReadPiece>> read_piece(OpenFileRef file, uint64_t offset, Slice destination);
  struct ReadPart {
    ReadPart(uint64_t o, size_t s) : offset(o), size(s) {}
    const uint64_t offset;
    const size_t size;
    Completion<Result<ReadReply>> done;
  };
  // One READ after the other until there are `size` bytes or the end of the file.
  Task<Result<ReadReply>> read_in_turn(OpenFileRef file, uint64_t offset, size_t size);
  Task<> read_part(OpenFileRef file, ReadPart* part);
  Task<Result<ReadReply>> read_range(OpenFileRef file, uint64_t offset, size_t size);
  static Result<nfs4::stateid4> io_stateid(const Nfs4File& file);
  struct Written {
    nfs4::stable_how4 committed;
    nfs4::verifier4 verifier;
  };
  // WRITEs all of `data`.
  Task<Result<Written>> write_on_server(NodeRef node, std::shared_ptr<FileState> file, WriteUnder under,
                                        uint64_t offset, Slice data, nfs4::stable_how4 stable);
  // WRITEs an extent of `writes` and moves it on.
  Task<> write_extent(NodeRef node, std::shared_ptr<FileState> file, ExtentMap::iterator entry,
                      nfs4::stable_how4 stable);
  // The rest of these under the Node's mutex. Keeps the first error for the next fsync or close.
  void write_failed(FileState& file, Error error, const char* verb);
  // [offset, end) is written anew: what was written there before need not be kept for a COMMIT any more.
  void supersede(FileState& file, uint64_t offset, uint64_t end);
  ExtentMap::iterator add_extent(FileState& file, WriteExtent extent);
  bool grow_held(FileState& file, const Nfs4File& handle, uint64_t offset, const Slice& data);

  // `whole_file`: the held extent may be all there will be of a small file.
  void send_held(const NodeRef& node, const std::shared_ptr<FileState>& file, bool whole_file = false);
  // Takes a small write into the held extent; false when it is to be sent by itself.
  bool gather(const NodeRef& node, const std::shared_ptr<FileState>& file, const Nfs4File& handle,
              uint64_t offset, const Slice& data);
  Task<Result<>> write_through(OpenFileRef open, uint64_t offset, Slice data);
  Task<> send_pieces(OpenFileRef open, uint64_t offset, Slice data);
  // Until no unanswered extent overlaps [offset, end).
  Task<> settle(NodeRef node, std::shared_ptr<FileState> file, uint64_t offset, uint64_t end);
  // Until everything written before the call is answered.
  Task<> settle_all(NodeRef node, std::shared_ptr<FileState> file);
  Task<> settle_node(NodeRef node);
  // True when there was something unanswered beyond `offset`, and it is answered now.
  Task<bool> settle_beyond(NodeRef node, std::shared_ptr<FileState> file, uint64_t offset);
  Task<> throttle(NodeRef node, std::shared_ptr<FileState> file);
  // The mount keeps too much that is not committed.
  Task<> commit_everything();
  Task<> commit(NodeRef node, std::shared_ptr<FileState> file);
  Task<> send_again(NodeRef node, std::shared_ptr<FileState> file);
  // Everything on stable storage, or an error noted.
  Task<> write_back(NodeRef node, std::shared_ptr<FileState> file);
  // The latest error of writing that this descriptor was not told.
  static Result<> unreported_error(Nfs4File& handle);
  Task<> commit_in_background(NodeRef node, std::shared_ptr<FileState> file);
  Task<> send_held_periodically();
  // After a restart of the server: data that was UNSTABLE there is sent again before anybody reads the file.
  Task<> restore_lost_writes(NodeRef node, std::shared_ptr<FileState> file);
  Task<> resend_writes(NodeRef node) override;
  void locks_lost(NodeRef node) override;

  // --- fs_locks.cc ---
  Task<Result<>> lock_owner_request(RequestContext ctx, OpenFileRef file, std::string owner, Lock lock,
                                    bool wait, LockWaits::Wait* waiting);
  // Nothing when it is granted, else whose lock is in the way.
  Task<Result<std::optional<nfs4::lock_owner4>>> try_lock(OpenFileRef file, std::string owner, Lock lock,
                                                          bool waiting);
  Task<Result<>> unlock(OpenFileRef file, std::string owner, Lock lock);
  // As unlock(), with the file's lock_mutex held and the data on the server.
  Task<Result<>> unlock_in_turn(OpenFileRef file, std::string owner, Lock lock);
  // Whether `owner` has, or is about to have, something to unlock. Not the Node's mutex held.
  static bool may_hold(const Nfs4File& file, const std::string& owner);
  // Until a lock of the file is dropped here, or `longest` is over; false when cancelled.
  // FREE_STATEID (section 18.38) for lock-owners that hold nothing.
  Task<> forget_idle_owners(std::shared_ptr<FileState> file, OpenStateRef state);
  Task<bool> wait_for_unlock(RequestContext ctx, std::shared_ptr<FileState> file, Duration longest);

  // --- fs_directory.cc ---
  struct DirectoryHandle;
  // The entries that follow `cookie`.
  Task<Result<>> fill(RequestContext ctx, DirectoryHandle& handle, uint64_t cookie, bool plus);
  // One READDIR.
  Task<Result<>> read_entries(RequestContext ctx, DirectoryHandle& handle, uint64_t cookie, bool plus);
  // As fill(), of a server that does not know the cookie any more; `first`: where to begin to look.
  Task<Result<>> find_place(RequestContext ctx, DirectoryHandle& handle, uint64_t cookie, bool plus,
                            uint64_t first);
  // Nothing for a name that we have removed since it was read.
  Task<std::optional<DirectoryEntry>> directory_entry(DirectoryHandle& handle, size_t index, bool plus);

  // --- fs_mount.cc ---
  Task<Result<Entry>> walk_to_export();
  Task<Result<>> read_limits(NodeRef root);
  Task<> write_back_everything();
  nfs4::nfs_fh4 fh_of(const NodeRef& n) const { return nfs4_node(n).fh(); }

  LoopPool& loops_;
  BufferPool& buffers_;
  const ClientOptions options_;
  const rpc::CredentialPtr machine_;
  FrontEnd* front_end_ = nullptr;
  NodeTable nodes_;
  Exports exports_;
  IdMap ids_;
  Session session_;
  StateManager states_;
  CallbackServer callbacks_;
  Timer held_timer_;

  uint32_t rsize_ = 65536, wsize_ = 65536;  // fixed after mount()
  uint32_t name_max_ = 255;
  nfs4::bitmap4 exclusive_create_attributes_;
  mutable std::mutex owners_mutex_;
  std::unordered_map<uint32_t, uint32_t> owners_;  // note_owner(): where they differ
  const TimePoint created_ = Clock::now();
  bool mounted_ = false;
  std::atomic<bool> stopping_{false};
  std::atomic<uint64_t> dirty_bytes_{0};  // held and sending, all files
  AsyncMutex commit_everything_mutex_;
  LockWaits lock_waits_;
  std::atomic<uint64_t> unstable_bytes_{0};  // kept until COMMIT
  mutable std::atomic<uint64_t> attribute_hits_{0}, attribute_misses_{0}, name_hits_{0}, name_misses_{0};
};

}  // namespace nfsrdma::client
