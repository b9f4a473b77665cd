// SPDX-License-Identifier: Apache-2.0
// CachingFilesystem: what every version of NFS has in common above the wire: attributes and names and how
// long they are believed, written data until it is on the server's disk, directory listings, reading in
// pieces, files that are removed while they are open.
//
// A protocol (client/nfs4, client/nfs3) derives from it, gives it its Nodes and open files, and answers the
// questions of the section "the wire". Its methods are spread over client/cache/fs_*.cc by subject; each runs
// on its caller's loop. What loops share is in CachedNode (its mutex), CachedFile and the name cache.
//
// Change attributes are NFSv4's; a protocol without them makes them up so that they move when the file does.
#pragma once

#include <atomic>
#include <climits>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "client/cache/ahead_readers.h"
#include "client/cache/attribute_decision.h"
#include "client/cache/cached_file.h"
#include "client/cache/cached_node.h"
#include "client/cache/hidden_removals.h"
#include "client/cache/listed_entry.h"
#include "client/cache/name_decision.h"
#include "client/cache/read_pace.h"
#include "client/cache/write_limits.h"
#include "client/cache/write_place.h"
#include "client/cache/written_bytes.h"
#include "client/filesystem.h"
#include "client/options.h"
#include "xdr/nfs4/file_ops.h"

namespace nfsrdma::client {

// What ACCESS asks for, always: the answer serves whoever asks next. NFSv3's bits are the same.
constexpr uint32_t kEveryAccess = nfs4::ACCESS4_READ | nfs4::ACCESS4_LOOKUP | nfs4::ACCESS4_MODIFY |
                                  nfs4::ACCESS4_EXTEND | nfs4::ACCESS4_DELETE | nfs4::ACCESS4_EXECUTE;

// What AUTH_SYS calls this host.
std::string machine_name();
// rsize or wsize: what was asked for (0: nothing), within what the file system and a message allow (0: no
// limit known).
uint32_t io_size(uint32_t asked, uint64_t of_file_system, uint32_t of_message);
// Files below this size are possible everywhere.
constexpr uint64_t kLeastFileLimit = (uint64_t{1} << 31) - 1;
// The largest file that a server tells of (maxfilesize; 0: it does not know), as write() believes it.
uint64_t file_size_limit(uint64_t told);

struct Listing;    // an open directory (fs_directory.cc, listing.h)
struct ReadRange;  // read_ahead.h

class CachingFilesystem : public Filesystem {
 public:
  Task<Result<Entry>> lookup(RequestContext ctx, NodeRef directory, std::string name) override;
  Task<Result<AttributesReply>> getattr(RequestContext ctx, NodeRef node, OpenFileRef file) override;
  Task<Result<>> access(RequestContext ctx, NodeRef node, int mask) override;
  Task<Result<>> unlink(RequestContext ctx, NodeRef directory, std::string name) override;
  Task<Result<>> rmdir(RequestContext ctx, NodeRef directory, std::string name) override;
  Task<Result<>> rename(RequestContext ctx, NodeRef from_directory, std::string from, NodeRef to_directory,
                        std::string to, unsigned flags) override;
  Task<Result<ReadReply>> read(RequestContext ctx, OpenFileRef file, uint64_t offset, size_t size) override;
  Task<Result<>> write(RequestContext ctx, OpenFileRef file, uint64_t offset, Slice data) override;
  Task<Result<>> fsync(RequestContext ctx, OpenFileRef file, bool data_only) override;
  Task<Result<OpenDirectoryReply>> opendir(RequestContext ctx, NodeRef node) override;
  Task<Result<DirectoryPage>> readdir(RequestContext ctx, OpenDirectoryRef directory, uint64_t offset,
                                      size_t bytes, bool plus) override;
  Task<> releasedir(OpenDirectoryRef directory) override;
  Task<Result<>> fsyncdir(RequestContext ctx, OpenDirectoryRef directory) override;
  std::optional<Error> take_error(const OpenFileRef& file) override;
  int soft_errno() const override;
  void memory_refused() override;
  Whereabouts whereabouts(const NodeRef& node) const override;
  // The machine was suspended, which neither Clock nor the kernel's times have counted: what only their times
  // vouch for is asked for again. Any thread.
  void doubt_ages();

  // What no server may see as a component; the kernel sends none of these.
  static bool valid_name(const std::string& name);

 protected:
  CachingFilesystem(LoopPool& loops, BufferPool& buffers, ClientOptions options, CachedNodeTable& table);

  struct ReadPiece {
    BulkData data;
    bool eof = false;
    std::optional<uint64_t> change;  // with kKeeping: the change attribute after it was read
  };
  enum class ReadFor : uint8_t {
    kAnswering,  // the kernel: the data may stay in a pipe
    kKeeping,    // the data cache: all of it goes to the destination
  };
  using Written = client::Written;
  // Under which the pieces of one WRITE were not written together, until it fails.
  static constexpr int kMostVerifiers = 16;

  // --- the wire ---
  // Of the file system that the file is on.
  struct Limits {
    uint32_t rsize = 65536, wsize = 65536;  // bytes of a READ, of a WRITE
    uint32_t name_max = 255;                // bytes
    uint64_t file_max = INT64_MAX;          // bytes of a file
  };
  virtual Limits limits_of(const NodeRef&) const { return limits_; }
  // What the server has promised (AttributeCache::promise()) it can still be held to.
  virtual bool promises_hold() const { return true; }
  // The file is under a promise that counts. Node mutex held.
  bool promised(const CachedNode& n) const { return n.attributes.promised() && promises_hold(); }
  // What is known of it is what the server has, by such a promise: what only a promise allows may be
  // answered. That the clock believes it is not enough. Node mutex held.
  bool vouched_for(const CachedNode& n) const { return n.attributes.covered() && promises_hold(); }
  // Changes whenever the server may have lost what was UNSTABLE there. Never 0.
  virtual uint64_t epoch() const = 0;
  // Every file with something open or unwritten.
  virtual std::vector<NodeRef> files_in_use() const = 0;
  virtual Task<Result<>> fetch_attributes(RequestContext ctx, NodeRef node, Cause cause) = 0;
  // ACCESS with new attributes; what of `wanted` (ACCESS4_*) is allowed.
  virtual Task<Result<uint32_t>> ask_access(RequestContext ctx, NodeRef node, uint32_t wanted) = 0;
  // Asks for the directory's ACL, and calls note_everybody() if there is an answer.
  virtual Task<> ask_who_searches(RequestContext, NodeRef) { co_return; }
  virtual Task<Result<Entry>> lookup_on_server(RequestContext ctx, NodeRef directory, std::string name) = 0;
  virtual Task<Result<>> remove_on_server(RequestContext ctx, NodeRef directory, std::string name,
                                          bool is_directory) = 0;
  virtual Task<Result<>> rename_on_server(RequestContext ctx, NodeRef from_directory, std::string from,
                                          NodeRef to_directory, std::string to) = 0;
  // The descriptor may be read and written through on this account; else what its I/O fails with.
  virtual Result<> usable(const CachedOpen& open, const IoAccount& account) const = 0;
  // One READ of destination.size() bytes. `account` outlives it.
  virtual Task<Result<ReadPiece>> read_piece(OpenFileRef file, const IoAccount& account, uint64_t offset,
                                             Slice destination, ReadFor purpose) = 0;
  // The server vouches for them: equal ones are of one version of a file (ReadFor::kKeeping).
  virtual bool has_change_attributes() const { return false; }
  // How much memory can be kept ready for what the server sends. Bytes.
  virtual uint64_t registrable_bytes() const { return UINT64_MAX; }
  // One more READ may be sent beside `under_way` ones that nobody waits for, without holding up others.
  virtual bool may_read_ahead(unsigned) const { return false; }
  // How many of them the connection of that loop may have.
  virtual unsigned most_ahead_on(unsigned) const { return UINT_MAX; }
  // WRITEs all of `data`.
  virtual Task<Result<Written>> write_on_server(NodeRef node, CachedFileRef file, IoAccount account,
                                                uint64_t offset, Slice data, nfs4::stable_how4 stable) = 0;
  // COMMIT of [offset, end), which is not empty.
  virtual Task<Result<nfs4::verifier4>> commit_on_server(NodeRef node, rpc::CredentialPtr credential,
                                                         uint64_t offset, uint64_t end) = 0;
  // What a COMMIT says of it; 0, "to the end of the file" (RFC 8881 section 18.3.3), of more than it can say.
  static uint32_t commit_count(uint64_t offset, uint64_t end) {
    return end - offset > UINT32_MAX ? 0 : static_cast<uint32_t>(end - offset);
  }
  // As ask_access(), of a directory about to be listed, and a READDIR from its beginning in the same COMPOUND
  // where there is such a thing. Whether the listing was filled it says itself.
  virtual Task<Result<uint32_t>> ask_access_and_list(RequestContext ctx, Listing& listing, uint32_t wanted,
                                                     bool plus);
  // One READDIR from `cookie` into the listing, with its attributes booked.
  virtual Task<Result<>> read_entries(RequestContext ctx, Listing& listing, uint64_t cookie, bool plus) = 0;

  // --- fs_attributes.cc ---
  // Books `attributes` for `node`; returns whether the kernel's pages are still good (kOpened). `before`: the
  // change attribute before an operation of ours (kOwn), in the same COMPOUND; nothing: nobody else can have
  // changed it, or the server does not say. `then`: when the server was asked, of an answer that has lain
  // here.
  Task<bool> book(NodeRef node, Attributes attributes, uint64_t order, Cause cause,
                  std::optional<uint64_t> before = {}, TimePoint then = Clock::now());
  // What a READDIR said of a file.
  Task<> book_listed(const NodeRef& node, const ListedEntry& entry, const NameBelief& belief);
  // attribute_decision.h: what book() decides by, and what it does. The Node's mutex is held; `file` is null
  // unless the file is open. `cached_change`: the change attribute that was cached before.
  KnownContents known_contents(const CachedNode& n, const CachedFile* file) const;
  ArrivedAttributes arrived_attributes(const CachedNode& n, const Attributes& attributes, Cause cause,
                                       std::optional<uint64_t> before) const;
  void carry_out(const Decision& d, CachedNode& n, CachedFile* file, uint64_t cached_change, TimePoint then);
  // With the Node's mutex held: our operations are answered, and somebody else's change was among them. The
  // caller spawns KernelView::drop_counted().
  static bool others_changed_too(CachedFile& file);
  // The same: somebody else has changed the file, `file` null unless it is open.
  static void note_drop(CachedNode& n, CachedFile* file);
  Entry cached_entry(const NodeRef& node, Duration entry_ttl) const;
  // For the kernel, and booked as known to it.
  AttributesReply attributes_reply(const NodeRef& node) const;
  static Attributes known_attributes(const NodeRef& node);
  // OpenReply::size_is_news. Node mutex held.
  bool size_is_news(const CachedNode& n) const;
  // An answer for a file that the server no longer has: what led to it is asked again. The kernel walks a
  // path anew when it gets ESTALE.
  Error gone(const NodeRef& node, Error error);
  AttributeCache::Limits limits(bool directory) const;
  bool fresh(const CachedNode& node) const;
  // Asks again unless fresh.
  Task<Result<>> revalidate(RequestContext ctx, NodeRef node);
  // A regular file's: see AttributeCache::doubtful().
  static bool doubtful(const NodeRef& node);
  // Asks again while that is so.
  Task<Result<>> resolve_doubt(RequestContext ctx, NodeRef node);
  // attributes_reply() of what is not doubtful.
  Task<Result<AttributesReply>> sure_attributes(RequestContext ctx, NodeRef node);

  // --- fs_access.cc ---
  // EACCES unless the caller has every bit of `wanted`; `op` is what it is for.
  Task<Result<>> require_access(RequestContext ctx, NodeRef node, uint32_t wanted, const char* op);
  // Whether the mode lets everybody who comes through this mount search the directory.
  bool all_may_search(const Attributes& directory) const;
  // Nothing else forbids it to anybody, so that its names may be kept by the kernel, which asks nobody before
  // it follows one. Node mutex held.
  bool names_are_free(const CachedNode& directory) const;
  // That depends on the ACL, and what the ACL says is not known. Node mutex held.
  bool acl_is_wanted(const CachedNode& directory) const;
  Task<> ask_for_acl(rpc::CredentialPtr credential, NodeRef directory);
  // Whether the ACL lets everybody search, with the change attribute that it is of.
  void note_everybody(const NodeRef& directory, bool search, uint64_t change);
  Task<Result<>> check_search(RequestContext ctx, NodeRef directory);
  Task<Result<uint32_t>> access_bits(RequestContext ctx, NodeRef node, uint32_t wanted);
  // What is allowed, as far as it need not be asked. Node mutex held.
  std::optional<uint32_t> known_access(const RequestContext& ctx, const CachedNode& n) const;
  // Books an ACCESS answer that came with attributes of this change attribute; gives what is allowed.
  uint32_t note_access(const RequestContext& ctx, CachedNode& n, uint32_t supported, uint32_t access,
                       uint64_t change);
  // Whether ACCESS bits `allowed` let the caller have what open(2) was called with `flags` for.
  static bool suffices(uint32_t allowed, int flags);

  // --- fs_sweep.cc ---
  bool sweeps() const;
  // A READDIR with attributes is worth it with the directory's opening: its files' attributes were asked for
  // after the last one that brought them, and are old.
  bool entries_are_due(const NodeRef& directory);
  // A file of the directory was asked for: it was not known, or it was of use that it was.
  SweepRef note_asked(const NodeRef& directory);
  // Books what came of files that are known here.
  Task<> book_known(const Listing& listing);
  // The answer at hand waits for the LOOKUPs of its other files.
  void keep_waiting(Listing& listing);
  // `listing` has come with its directory's opening.
  Task<> sweep_at_opening(Listing& listing);
  // The sweep's next READDIR.
  Task<> read_on(RequestContext ctx, NodeRef directory, Sweep& sweep);
  // The node's attributes are old. True: they are not any more, a READDIR has brought them.
  Task<bool> sweep_for(RequestContext ctx, NodeRef node);
  // A name is not known. True: a READDIR has been tried just now, and may have brought it.
  Task<bool> sweep_for_names(RequestContext ctx, NodeRef directory);
  // What a READDIR has brought of a file that nobody has asked for yet, if it is still good.
  Task<std::optional<Entry>> waiting_entry(RequestContext ctx, NodeRef directory, const std::string& name);

  // --- fs_names.cc ---
  // Books a change of ours to `directory`: its change attribute before and after, whether the server vouches
  // that nobody else's change is between (`atomic`), and attributes asked for afterwards, if any. What it
  // says of the names it was about: believed, if nobody else changed the directory before `after`.
  Task<NameBelief> book_own_change(NodeRef directory, uint64_t before, uint64_t after, bool atomic,
                                   std::optional<Attributes> attributes, uint64_t order);
  // Names learnt so are what the directory holds, as far as is known.
  bool believed(const NodeRef& directory, const NameBelief& belief) const;
  // What a LOOKUP in the directory ends with: that the name is not there, if the directory itself is not
  // under its own any more. After ESTALE the kernel walks a path again, but not that of a name to be made.
  Task<Error> lookup_error(RequestContext ctx, NodeRef directory, Error error);
  // From the name cache, or by a sweep, as far as it is believed: what lookup() need not ask for.
  Task<Result<std::optional<Entry>>> known_entry(RequestContext ctx, NodeRef directory,
                                                 const std::string& name);
  // The epoch of names that came after this change attribute in one answer whose attributes are booked.
  static uint64_t names_epoch(const NodeRef& directory, uint64_t change);
  // Its attributes are asked for again; `node` may be null.
  void expire(const NodeRef& node);
  // name_decision.h. The Node's mutex is held.
  DirectoryKnowledge directory_knowledge(const CachedNode& d, uint64_t epoch, TimePoint now) const;
  // How long the kernel may believe a name that is known so.
  Duration entry_ttl(const NodeRef& directory, const NameBelief& belief) const;
  // Of a name that leads to a file: it is held by the file's delegation.
  bool name_is_promised(const NameCache::Found& found) const;
  // What lookup_on_server() found out, booked and answered; `node` null: no such name.
  Entry learnt_entry(const NodeRef& directory, const std::string& name, const NodeRef& node,
                     const NameBelief& belief);
  // What is known of the names of a RENAME before it is sent.
  struct Moving {
    NameBelief belief;  // of `moved`
    NodeRef moved, replaced;
  };
  Moving moving(const NodeRef& from_directory, const std::string& from, const NodeRef& to_directory,
                const std::string& to);
  // The attributes of both are asked for again: a RENAME is done, or may be.
  void expire_moved(const Moving& m);
  // It was done: the names that follow from it.
  void names_moved(const Moving& m, const NodeRef& from_directory, const std::string& from,
                   const NameBelief& from_belief, const NodeRef& to_directory, const std::string& to,
                   const NameBelief& to_belief);
  // Nobody knows what became of the name: it is asked for, and its directory.
  void name_in_doubt(const NodeRef& directory, const std::string& name);
  // A name that a request is about to make, and of which nothing is known afterwards unless the request is
  // known to have been executed.
  class NameToBe {
   public:
    NameToBe(CachingFilesystem& fs, NodeRef directory, std::string name)
        : fs_(fs), directory_(std::move(directory)), name_(std::move(name)) {}
    NameToBe(const NameToBe&) = delete;
    NameToBe& operator=(const NameToBe&) = delete;
    ~NameToBe() {
      if (!told_) in_doubt();
    }
    void made(Node& child, const NameBelief& belief) {
      fs_.table_.names().put(*directory_.get(), name_, &child, belief);
      told_ = true;
    }
    void refused(const Error& error, bool maybe_executed) { told_ = !leaves_doubt(error, maybe_executed); }
    void in_doubt() {
      fs_.name_in_doubt(directory_, name_);
      told_ = true;
    }

   private:
    CachingFilesystem& fs_;
    const NodeRef directory_;
    const std::string name_;
    bool told_ = false;
  };

  // --- fs_remove.cc ---
  // The directory under that name, if it is known for sure; null: it is not, or something else is there.
  NodeRef directory_under(const NodeRef& directory, const std::string& name);
  // What directory_under() gave was removed or replaced: of it fstat(2) can be told nothing but what is
  // known.
  static void note_removed(const NodeRef& directory);
  // Renames an open file out of the way; true when that is what `name` needed.
  // kMove: under a hidden name instead of its own; kBeside: under both.
  enum class Hide : uint8_t { kMove, kBeside };
  Task<Result<bool>> hide_open_file(RequestContext ctx, NodeRef directory, std::string name, Hide how);
  // The file keeps its name after all.
  Task<> show_again(RequestContext ctx, NodeRef node, NodeRef directory, std::string name);
  // Whether a change that was given up was made all the same: by where the server says that the name leads.
  Task<bool> leads_to(RequestContext ctx, NodeRef directory, std::string name, NodeRef node);
  Task<> remove_hidden(rpc::CredentialPtr credential, NodeRef directory, std::string name);
  // The last descriptor was closed: removes the name that was hidden, if any.
  Task<> remove_if_hidden(NodeRef node, CachedFileRef file);
  // Held while a descriptor of the file is closed: its hidden name, if it has one, may go with it.
  HiddenRemovals::Pending perhaps_last_close(const CachedFile& file);

  // --- fs_read_ahead.cc ---
  // What is kept of the file, here and in the kernel, is to go. drop_data() returns when it has.
  void invalidate_data(const NodeRef& node);
  Task<> drop_data(NodeRef node);
  // Reads that do not ask for the server (O_DIRECT) may be answered with what is kept.
  bool keeps_data() const;
  // What is kept of the file goes, and what a READ that is under way brings is not kept.
  void drop_kept(CachedNode& n) {
    ++n.data_touched;
    table_.data().drop(n);
  }
  // Twice a second. The limit of what is kept: cache_bytes, or less where memory, or what may be locked of
  // it, is short; and of what is written. And buffers that have been idle for a while, and names that nobody
  // has looked up.
  void give_memory_back();
  // What was kept from before a restart of the server is dropped.
  void note_server_epoch(uint64_t epoch);
  // How far to read ahead through one descriptor, in bytes.
  uint64_t ahead_window(const CachedOpen& handle);
  // Sends what is worth it just now, by the descriptor's latest read.
  void read_ahead(const OpenFileRef& open, const IoAccount& account);
  struct Ahead {
    DataCache::Fill fill;
    uint64_t change = 0, epoch = 0;  // when it was sent
    unsigned loop = 0;               // of whose connection it is
  };
  // Whose connection may have one more; nothing: there is no room. ahead_mutex_ held.
  std::optional<unsigned> loop_for_ahead() const;
  // The first part of `range` that is not here; becomes what follows. False: not now.
  bool send_ahead(const OpenFileRef& open, const IoAccount& account, ReadRange& range, unsigned loop);
  Task<> fetch_ahead(OpenFileRef open, IoAccount account, Ahead ahead);
  // The READ is answered: keep_decision.h.
  void finish_ahead(CachedOpen& handle, const Ahead& ahead, const Result<ReadPiece>& piece);
  // How much to read of a file with its OPEN: all of it, if it is small and nobody here has its data. 0:
  // nothing.
  size_t worth_reading_with_open(const NodeRef& node, int flags);
  // What came so is kept; `change` and `epoch`: with the OPEN's attributes, and before it was sent.
  void keep_read_with_open(CachedOpen& handle, const ReadPiece& piece, uint64_t change, uint64_t epoch,
                           uint32_t touched);
  // None are sent any more, and those under way are over: the descriptor may be closed on the server.
  Task<> end_read_ahead(OpenFileRef open);
  // With stopping_.
  Task<> end_all_read_ahead();

  // --- fs_io.cc, fs_write_back.cc ---
  struct ReadPart {
    ReadPart(uint64_t o, size_t s) : offset(o), size(s) {}
    const uint64_t offset;
    const size_t size;
    Completion<Result<ReadReply>> done;
  };
  // One READ after the other until there are `size` bytes or the end of the file. `account`, here and below,
  // outlives the call.
  Task<Result<ReadReply>> read_in_turn(OpenFileRef file, const IoAccount& account, uint64_t offset,
                                       size_t size);
  Task<> read_part(OpenFileRef file, const IoAccount& account, ReadPart* part);
  Task<> read_kept_part(OpenFileRef file, const IoAccount& account, ReadPart* part);
  // Data that was last confirmed before is not believed any more.
  TimePoint oldest_believed(const NodeRef& node) const;
  // From what is kept, waiting for what is on its way, the rest by read_range().
  Task<Result<ReadReply>> read_kept(OpenFileRef file, const IoAccount& account, uint64_t offset, size_t size);
  // read_kept(), and what follows from the pattern is sent behind it.
  Task<Result<ReadReply>> read_and_ahead(OpenFileRef file, const IoAccount& account, uint64_t offset,
                                         size_t size);
  Task<Result<ReadReply>> read_range(OpenFileRef file, const IoAccount& account, uint64_t offset,
                                     size_t size);
  // Access to the file's written data.
  LockedWrites locked_writes(const CachedFileRef& file) { return LockedWrites(*file, written_); }
  // Sends a WRITE for the extent and books the reply.
  Task<> write_extent(NodeRef node, CachedFileRef file, FileWrites::Extent extent, nfs4::stable_how4 stable);
  void send(const NodeRef& node, const CachedFileRef& file, const FileWrites::Sends& extents);
  // The WRITE of the extent was answered; `sent_in`: epoch() when it was sent.
  void extent_answered(const NodeRef& node, const CachedFileRef& file, FileWrites::Extent extent,
                       uint64_t sent_in, Result<Written> written);
  // FileWrites::take_only() for a COMPOUND with a request of `user`.
  std::optional<FileWrites::Extent> take_only_extent(const CachedFileRef& file, const rpc::Credential& user);
  // These two with the Node's mutex held. An error made the file lose `bytes` of written data. `verb` says
  // what could not be done.
  void note_refused(CachedFile& file, uint64_t bytes, const char* verb);
  // [offset, end) was written: what is kept of the file there, or is being read, is old.
  void note_written(CachedFile& file, uint64_t offset, uint64_t end);
  // A file in a line of the log: its inode, and its name from log_level=debug on, where one is known. The
  // Node's mutex is not taken.
  std::string called(Node& node, uint64_t ino) const;
  // The end of a line about it: how to find the name, unless the line has it.
  std::string how_to_find(Node& node, uint64_t ino) const;
  void cookies_go_in_a_circle(const NodeRef& node) const;
  // Sends every held extent. Data that is written later has at least the serial that it returns.
  uint64_t send_held(const NodeRef& node, const CachedFileRef& file);
  // Holds the data, by itself or as part of a held extent. False: the caller sends it.
  bool gather(const NodeRef& node, const CachedFileRef& file, const IoAccount& account, uint64_t offset,
              const Slice& data);
  Task<Result<>> write_through(OpenFileRef open, IoAccount account, uint64_t offset, Slice data);
  Task<Result<>> write_at(RequestContext ctx, OpenFileRef open, uint64_t offset, Slice data);
  // With O_APPEND, at the end that the front end knows.
  Task<Result<>> write_at_end(RequestContext ctx, OpenFileRef open, uint64_t offset, Slice data);
  // Where that is; EINTR if that had to be asked for and nobody waits any more. fs_append.cc.
  Task<Result<uint64_t>> append_offset(RequestContext ctx, NodeRef node, CachedFileRef file,
                                       uint64_t expected);
  // The same of a part of an O_DIRECT write; it stays in CachedFile::direct_append, also if this fails.
  Task<Result<uint64_t>> direct_append_offset(RequestContext ctx, NodeRef node, CachedFileRef file,
                                              AppendPart part);
  Task<Result<uint64_t>> end_at_server(RequestContext ctx, NodeRef node, CachedFileRef file);
  // Both with the Node's mutex held. The kernel believes a file that it has written up to `end` to end there
  // at least.
  uint64_t known_end(const CachedFile& file) const;
  static void note_kernel_end(CachedNode& n, uint64_t end) { n.kernel.wrote_to(end); }
  Task<> send_pieces(OpenFileRef open, IoAccount account, uint64_t offset, Slice data);
  struct WritePart {
    WritePart(uint64_t o, Slice d) : offset(o), data(std::move(d)) {}
    const uint64_t offset;
    const Slice data;
    Completion<Result<Written>> done;
  };
  static bool join(std::optional<Written>& all, const Written& one);
  Task<> write_part(NodeRef node, CachedFileRef file, const IoAccount& account, WritePart* part);
  // Unstable, in WRITEs that are under way together. Nothing: the server restarted between two of them.
  Task<Result<std::optional<Written>>> write_in_parts(NodeRef node, CachedFileRef file,
                                                      const IoAccount& account, uint64_t offset, Slice data);
  // FILE_SYNC, whatever the server takes that for.
  Task<Result<>> write_stably(NodeRef node, CachedFileRef file, IoAccount account, uint64_t offset,
                              Slice data);
  // Waits for the earlier writes that overlap the extent, and admits it.
  Task<FileWrites::Extent> enter(NodeRef node, WritePlace& place, WriteExtent extent);
  // Until no unanswered extent overlaps [offset, end).
  Task<> settle(NodeRef node, CachedFileRef file, uint64_t offset, uint64_t end);
  // Until everything written before the call is answered.
  Task<> settle_all(NodeRef node, CachedFileRef file);
  Task<> settle_node(NodeRef node);
  // True when there was something unanswered beyond `offset`, and it is answered now.
  Task<bool> settle_beyond(NodeRef node, CachedFileRef file, uint64_t offset);
  // Before `bytes` of the file are written; EINTR: nobody waits for them any more.
  Task<Result<>> wait_for_room(NodeRef node, CachedFileRef file, std::shared_ptr<Cancellation> caller,
                               size_t bytes);
  // Nobody has to wait.
  bool has_room() { return !awaits_answers() && !keeps_too_much(); }
  // Sends and commits of the file what others wait for.
  void make_room(const NodeRef& node, const CachedFileRef& file);
  uint64_t bytes_beside_data() const;  // of buffers
  // What the memory there is allows: asked for twice a second while there is written data, else by the first
  // who writes.
  WriteLimits fit_writes(uint64_t available);
  WriteLimits write_limits();
  bool keeps_too_much_memory();  // the mount, in buffers
  bool awaits_answers();         // or so much of it is unanswered
  bool keeps_too_much();         // that is not committed
  // Memory was refused a moment ago: each write then waits until its data is committed.
  bool memory_is_short() const;
  // Commits everything, and drops what was read.
  Task<> free_memory();
  void note_memory_is_back();
  // The mount keeps too much that is not committed.
  void commit_everything_soon();
  Task<> commit_everything();
  Task<> commit(NodeRef node, CachedFileRef file);
  // One COMMIT; true when the server had lost something and it was written again.
  Task<bool> commit_once(NodeRef node, CachedFileRef file);
  Task<> send_again(NodeRef node, CachedFileRef file);
  // Everything on stable storage, or an error noted.
  Task<> write_back(NodeRef node, CachedFileRef file);
  // The latest error of writing that this descriptor was not told; take_error() says who tells it.
  static Result<> unreported_error(CachedOpen& handle);
  // In the background, if it is due and not at it already; `due`: asked with the Node's mutex held.
  template <class Due>
  void commit_soon(const NodeRef& node, const CachedFileRef& file, const Due& due);
  void commit_large(const NodeRef& node, const CachedFileRef& file);
  void commit_old();  // of the loop that sends what is held
  Task<> commit_in_background(NodeRef node, CachedFileRef file);
  Task<> send_held_periodically();
  // After a restart of the server: data that was UNSTABLE there is sent again before anybody reads the file.
  Task<> restore_lost_writes(NodeRef node, CachedFileRef file);

  // --- fs_directory.cc ---
  // The entries that follow `cookie`.
  Task<Result<>> fill(RequestContext ctx, Listing& listing, uint64_t cookie, bool plus);
  void note_listing_begun(const Listing& listing);
  // Linux looks for the age of its listing when a directory is opened, not at rewinddir(3): of those that
  // stay open it is told to forget what may not be believed any more.
  void take_back_old_listings();
  // As fill(), of a server that does not know the cookie any more; `first`: where to begin to look.
  Task<Result<>> find_place(RequestContext ctx, Listing& listing, uint64_t cookie, bool plus, uint64_t first);
  // The Nodes of all its entries will be asked for soon.
  void expect(const Listing& listing);
  // Nothing for a name that we have removed since it was read.
  Task<std::optional<DirectoryEntry>> directory_entry(Listing& listing, size_t index, bool plus);

  // Whether what is written through a descriptor of these open(2) flags is on the server before write(2)
  // returns.
  bool synchronous(int flags) const;

  CacheStatistics cache_statistics() const;
  Duration age() const { return Clock::now() - created_; }

  LoopPool& loops_;
  BufferPool& buffers_;
  const ClientOptions options_;
  const rpc::CredentialPtr machine_;
  KernelView kernel_;
  Timer held_timer_;
  HiddenRemovals hidden_removals_;
  Limits limits_;  // of the mount's root; fixed after mount()
  std::atomic<bool> stopping_{false};
  mutable std::atomic<uint64_t> attribute_misses_{0};

 private:
  CachedNodeTable& table_;
  const TimePoint created_ = Clock::now();
  WrittenBytes written_;                    // of all files
  std::atomic<uint64_t> waiting_bytes_{0};  // of writes that wait for room
  std::atomic<uint64_t> refused_bytes_{0};  // given up after an error
  std::atomic<uint64_t> room_errors_{0};    // ENOSPC and EDQUOT among those errors
  std::atomic<uint64_t> write_limit_{0};    // WriteLimits::buffers(); 0: not known
  std::atomic<bool> committing_everything_{false};
  std::atomic<int64_t> short_until_{0};  // steady clock ticks; 0: memory was not refused
  std::atomic<bool> freeing_{false};     // free_memory() runs
  TimePoint look_for_old_at_{};
  ReadPace pace_;
  AheadReaders ahead_readers_;
  std::mutex listings_mutex_;                     // guards
  std::vector<std::weak_ptr<Listing>> listings_;  // the open directories, and for half a second those closed
  std::atomic<uint64_t> data_epoch_{0};           // that the data cache is of
  // Files in a row whose data came with the OPEN for nothing, so far; and OPENs since without.
  std::atomic<unsigned> opened_unread_{0}, opened_plain_{0};
  std::mutex ahead_mutex_;  // guards these three
  unsigned ahead_under_way_ = 0;
  std::vector<unsigned> ahead_on_;  // of them, by loop
  unsigned ahead_next_ = 0;         // the loop whose turn it is
  WaitQueue ahead_ended_;
  mutable std::atomic<uint64_t> attribute_hits_{0}, name_hits_{0}, name_misses_{0};
};

}  // namespace nfsrdma::client
