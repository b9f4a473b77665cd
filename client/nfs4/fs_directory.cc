// READDIR (RFC 8881 section 18.23). Offsets are the server's cookies, so that telldir and seekdir outlive
// changes by others; "." and "..", which the protocol does not return, are offsets 1 and 2, which its cookies
// never are.
#include <algorithm>
#include <cerrno>
#include <set>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "client/nfs4/nfs4_filesystem.h"
#include "transport/runtime/log.h"
#include "xdr/nfs4/dir_ops.h"
#include "xdr/nfs4/handle_ops.h"

namespace nfsrdma::client {
namespace {

constexpr uint64_t kAfterDot = 1, kAfterDotDot = 2;
constexpr uint32_t kReplyBytes = 128u << 10;
// What an entry takes in a front end's buffer besides its name: with attributes, and without.
constexpr size_t kPlusBytes = 160, kPlainBytes = 32;
// How often a listing whose cookies do not hold is begun again for one entry that was not seen yet.
constexpr int kMaxRestarts = 20;
// Entries that were given out and come again, beyond twice as many as there were: there is no end to them.
constexpr size_t kMostDropped = 1000;

bool place_is_gone(const Error& e) {
  return e.is_status(nfs4::NFS4ERR_NOT_SAME) || e.is_status(nfs4::NFS4ERR_BAD_COOKIE);
}

}  // namespace

struct Nfs4Filesystem::DirectoryHandle final : OpenDirectory {
  DirectoryHandle(NodeRef n) : node(std::move(n)) {}
  const NodeRef node;
  AsyncMutex mutex;
  // The last READDIR's answer: entries that follow cookie `from`.
  std::vector<nfs4::entry4> entries;
  uint64_t from = 0;
  bool filled = false, plus = false, eof = false;
  NameBelief belief;
  uint64_t change = 0;  // of the directory when the listing began
  nfs4::verifier4 verifier;
  size_t delivered = 0;      // of `entries`
  std::set<uint64_t> begun;  // where READDIRs of this listing began, without a jump between them
  // What was given out since the beginning, in order.
  struct Given {
    uint64_t cookie;
    size_t name;  // hashed
  };
  std::vector<Given> given;
  bool given_from_start = false;
  bool sift = false;  // the server's cookies ended, or go in a circle: what follows may have been given out
  bool told = false;  // of the circle

  bool all_given_until(uint64_t cookie) const {
    return given_from_start && !given.empty() && given.back().cookie == cookie;
  }
  // The next entry given out follows `cookie`.
  void seek(uint64_t cookie) {
    if (cookie == 0) {
      given.clear();
      given_from_start = true;
      sift = false;
    }
    if (given.empty() || given.back().cookie == cookie) return;
    const auto at =
        std::find_if(given.rbegin(), given.rend(), [&](const Given& g) { return g.cookie == cookie; });
    given.erase(at.base(), given.end());
    if (given.empty()) given_from_start = false;
  }
  void give(const nfs4::entry4& entry) {
    delivered = static_cast<size_t>(&entry - entries.data()) + 1;
    given.push_back({entry.cookie, std::hash<std::string_view>{}(entry.name)});
  }

  // A READDIR from `cookie` comes next.
  void begin(uint64_t cookie) {
    if (cookie == 0 || entries.empty() || entries.back().cookie != cookie) begun.clear();
    begun.insert(cookie);
  }
  // Going on after the answer at hand leads to what this listing has had. (Cookies may come twice within an
  // answer: nfs-ganesha's do when a directory changes under it.)
  bool leads_back() const { return !eof && !entries.empty() && begun.contains(entries.back().cookie); }

  // The same, seen by the last name: a circle longer than an answer.
  bool ends_again() const {
    if (entries.empty()) return false;
    const size_t name = std::hash<std::string_view>{}(entries.back().name);
    return std::any_of(given.begin(), given.end(), [&](const Given& g) { return g.name == name; });
  }

  // A name is in a directory once. What is left leads on as the whole answer does.
  void drop_repeats() {
    std::unordered_set<std::string_view> names;
    names.reserve(entries.size());
    bool repeats = false;
    for (nfs4::entry4& e : entries) {
      if (names.insert(e.name).second) continue;
      e.name.clear();
      repeats = true;
    }
    if (!repeats) return;
    const uint64_t last = entries.back().cookie;
    std::erase_if(entries, [](const nfs4::entry4& e) { return e.name.empty(); });
    entries.back().cookie = last;
    sift = true;
  }
  std::unordered_set<size_t> given_names() const {
    std::unordered_set<size_t> names;
    for (const Given& g : given) names.insert(g.name);
    return names;
  }
  void drop_given() {
    const std::unordered_set<size_t> names = given_names();
    std::erase_if(entries, [&](const nfs4::entry4& e) {
      return names.contains(std::hash<std::string_view>{}(e.name));
    });
  }
  // The server's cookies lead nowhere else: what they led to is the listing.
  void end_at(uint64_t cookie) {
    from = cookie;
    eof = filled = true;
    if (std::exchange(told, true)) return;
    std::unique_lock lock(nfs4_node(node).mutex);
    const uint64_t ino = nfs4_node(node).attributes.get().ino;
    lock.unlock();
    log::warn(
        "the server's READDIR cookies of directory inode {} go in a circle: what they led to is listed, and "
        "may not "
        "be all; which directory: run 'find -inum {}' in the mount",
        ino, ino);
  }

  // Where in `entries` the one after `cookie` is, if the answer at hand covers that.
  std::optional<size_t> position_after(uint64_t cookie, bool want_attributes) const {
    if (!filled || (want_attributes && !plus)) return std::nullopt;
    // By place before by cookie, which need not be unique.
    if (delivered != 0 && entries[delivered - 1].cookie == cookie) return delivered;
    if (cookie == from) return 0;
    const auto it =
        std::find_if(entries.begin(), entries.end(), [&](const auto& e) { return e.cookie == cookie; });
    if (it == entries.end()) return std::nullopt;
    return static_cast<size_t>(it - entries.begin()) + 1;
  }
};

Task<Result<OpenDirectoryReply>> Nfs4Filesystem::opendir(RequestContext ctx, NodeRef node) {
  Nfs4Node& n = nfs4_node(node);
  // Close-to-open holds for directories too: what they are now, not what they were within acdirmax.
  Result<uint32_t> bits = fail(Error{});
  if (options_.close_to_open) {
    bits = co_await ask_access(ctx, node, nfs4::ACCESS4_READ);
  } else {
    bits = co_await access_bits(ctx, node, nfs4::ACCESS4_READ);
  }
  if (!bits) co_return fail(std::move(bits.error()));
  if (*bits == 0) co_return fail(system_error(EACCES, "READDIR"));
  if (!options_.close_to_open) NFSRDMA_CO_TRY(co_await revalidate(ctx, node));
  OpenDirectoryReply reply;
  reply.directory = std::make_shared<DirectoryHandle>(node);
  std::lock_guard lock(n.mutex);
  reply.keep_cache = n.listing_known && n.attributes.get().change == n.listing_change;
  co_return reply;
}

Task<Result<>> Nfs4Filesystem::fill(RequestContext ctx, DirectoryHandle& handle, uint64_t cookie, bool plus) {
  handle.sift = handle.sift && handle.all_given_until(cookie);
  if (handle.sift) co_return co_await find_place(ctx, handle, cookie, plus, cookie);
  handle.begin(cookie);
  Result<> read = co_await read_entries(ctx, handle, cookie, plus);
  if (!read) {
    if (cookie == 0 || !place_is_gone(read.error())) co_return read;
  } else if (!handle.leads_back() && !(handle.all_given_until(cookie) && handle.ends_again())) {
    co_return read;
  } else if (!handle.all_given_until(cookie)) {
    handle.drop_given();
    handle.end_at(cookie);
    co_return read;
  }
  co_return co_await find_place(ctx, handle, cookie, plus, 0);
}

// The server's cookies have ended or go in a circle. The listing begins again, and what was given out is left
// out; the place of a seekdir(3) is where the same cookie is. A directory that changes between any two
// READDIRs cannot be read from a server whose cookies end with each change.
Task<Result<>> Nfs4Filesystem::find_place(RequestContext ctx, DirectoryHandle& handle, uint64_t cookie,
                                          bool plus, uint64_t first) {
  const bool by_name = handle.sift = handle.all_given_until(cookie);
  const std::unordered_set<size_t> seen = handle.given_names();
  const uint64_t change = handle.change;
  for (int turn = 0; turn < kMaxRestarts; ++turn) {
    bool passed = by_name;
    std::set<uint64_t> begun;
    const uint64_t start = turn == 0 ? first : 0;
    size_t dropped = 0;
    for (uint64_t next = start;;) {
      const bool new_place = begun.insert(next).second;
      if (!new_place && !by_name)
        co_return fail(system_error(EIO, "READDIR", "the server's cookies lead back"));
      if (!new_place || dropped > kMostDropped + 2 * seen.size()) {
        if (start != 0) break;  // all of it once more: the directory may have changed under the server
        handle.end_at(cookie);
        co_return Result<>{};
      }
      Result<> read = co_await read_entries(ctx, handle, next, plus);
      handle.change = change;  // what was given out is of then
      if (!read && next != 0 && place_is_gone(read.error())) break;
      if (!read) co_return read;
      const uint64_t last = handle.entries.empty() ? next : handle.entries.back().cookie;
      const size_t erased = std::erase_if(handle.entries, [&](const nfs4::entry4& e) {
        if (by_name) return seen.contains(std::hash<std::string_view>{}(e.name));
        const bool before = !passed;
        passed = passed || e.cookie == cookie;
        return before;
      });
      if (by_name) dropped += erased;
      if (!handle.entries.empty() || (handle.eof && passed)) {
        handle.from = cookie;
        co_return Result<>{};
      }
      if (handle.eof) co_return fail(system_error(EIO, "READDIR", "the place in the directory is gone"));
      next = last;
    }
  }
  co_return fail(system_error(EIO, "READDIR", "the directory changes faster than it can be read"));
}

Task<Result<>> Nfs4Filesystem::read_entries(RequestContext ctx, DirectoryHandle& handle, uint64_t cookie,
                                            bool plus) {
  const nfs4::nfs_fh4 fh = fh_of(handle.node);
  NameBelief belief{Clock::now(), 0, nodes_.next_start()};
  handle.filled = false;
  nfs4::READDIR4args args;
  args.cookie = cookie;
  // Section 18.23.3: the verifier goes with cookies other than zero.
  if (cookie != 0) args.cookieverf = handle.verifier;
  args.maxcount = std::min(kReplyBytes, session_.max_response_bytes() - 1024);
  args.dircount = args.maxcount;
  args.attr_request = plus ? kEntryAttributes : kNameAttributes;
  auto build = [&](CompoundBuilder& b) { b.putfh(fh).getattr(kFileAttributes).add(args); };
  const Request request{nfs4::OP_READDIR, ctx.credential, false, build, {}};
  Result<CompoundReply> reply = co_await session_.run(request);
  if (!reply) co_return fail(std::move(reply.error()));
  if (Result<> put = reply->expect<nfs4::PUTFH4res>(); !put)
    co_return fail(gone(handle.node, std::move(put.error())));
  auto attributes = reply->take<nfs4::GETATTR4res>();
  if (!attributes) co_return fail(std::move(attributes.error()));
  const uint64_t change = attributes->resok4.obj_attributes.change;
  if (cookie == 0) handle.change = change;
  co_await apply(handle.node, std::move(attributes->resok4.obj_attributes), belief.order, Cause::kAsked);
  belief.epoch = names_epoch(handle.node, change);
  auto res = reply->take<nfs4::READDIR4res>();
  if (!res) co_return fail(std::move(res.error()));
  auto& list = res->resok4.reply;
  if (list.entries.empty() && !list.eof)
    co_return fail(system_error(EIO, "READDIR", "the server sent neither entries nor the end"));
  const bool reserved = std::any_of(list.entries.begin(), list.entries.end(),
                                    [](const auto& e) { return e.cookie <= kAfterDotDot; });
  if (reserved) co_return fail(system_error(EIO, "READDIR", "the server uses reserved cookies"));
  handle.entries = std::move(list.entries);
  handle.eof = list.eof;
  handle.verifier = res->resok4.cookieverf;
  handle.from = cookie;
  handle.plus = plus;
  handle.filled = true;
  handle.delivered = 0;
  handle.belief = belief;
  handle.drop_repeats();
  co_return Result<>{};
}

Task<std::optional<DirectoryEntry>> Nfs4Filesystem::directory_entry(DirectoryHandle& handle, size_t index,
                                                                    bool plus) {
  nfs4::entry4& from = handle.entries[index];
  const nfs4::fattr4& a = from.attrs;
  DirectoryEntry entry;
  entry.name = from.name;
  entry.next = from.cookie;
  const uint32_t here = nfs4_node(handle.node).export_index();
  const bool failed = a.has(nfs4::FATTR4_RDATTR_ERROR) && !a.has(nfs4::FATTR4_TYPE);
  const uint32_t index_of = a.has(nfs4::FATTR4_FSID) ? exports_.index_of(a.fsid) : here;
  entry.type = failed ? 0 : file_type_bits(a.type);
  entry.ino = Exports::ino(index_of, a.fsid, a.has(nfs4::FATTR4_FILEID) ? a.fileid : a.mounted_on_fileid);
  if (entry.ino == 0) entry.ino = 1;  // readdir(3) users skip inode 0
  // A mount point of the server is looked up when somebody goes there.
  const bool crossing = index_of != here;
  if (!plus || failed || crossing || !a.has(nfs4::FATTR4_FILEHANDLE)) co_return entry;
  Entry full = co_await make_entry(a.filehandle, a, handle.belief.order, Cause::kAsked);
  switch (nodes_.names().learn(*handle.node.get(), entry.name, full.node.get(), handle.belief)) {
    case NameCache::Learnt::kStored: break;
    case NameCache::Learnt::kAbsent: co_return std::nullopt;
    case NameCache::Learnt::kOther: co_return entry;
  }
  full.entry_ttl = entry_ttl(handle.node, handle.belief.epoch);
  entry.ino = full.attributes.ino;
  entry.entry = std::move(full);
  co_return entry;
}

Task<Result<DirectoryPage>> Nfs4Filesystem::readdir(RequestContext ctx, OpenDirectoryRef directory,
                                                    uint64_t offset, size_t bytes, bool plus) {
  auto& handle = static_cast<DirectoryHandle&>(*directory);
  auto guard = co_await handle.mutex.lock();
  plus = plus && options_.readdirplus;
  DirectoryPage page;
  size_t used = 0;
  const size_t overhead = plus ? kPlusBytes : kPlainBytes;
  if (offset < kAfterDotDot) {
    const uint64_t self = known_attributes(handle.node).ino;
    uint64_t parent = self;
    if (auto name = nodes_.names().name_of(*handle.node.get()))
      parent = known_attributes(name->directory).ino;
    if (offset < kAfterDot) page.entries.push_back({".", self, S_IFDIR, kAfterDot, std::nullopt});
    page.entries.push_back({"..", parent, S_IFDIR, kAfterDotDot, std::nullopt});
    used = page.entries.size() * (overhead + 8);
  }
  if (offset < kAfterDot) handle.filled = false;  // rewinddir(3): the directory as it is now
  uint64_t cookie = offset <= kAfterDotDot ? 0 : offset;
  handle.seek(cookie);
  while (used < bytes) {
    std::optional<size_t> index = handle.position_after(cookie, plus);
    if (!index || (*index == handle.entries.size() && !handle.eof)) {
      Result<> filled = co_await fill(ctx, handle, cookie, plus);
      if (!filled) {
        if (!page.entries.empty()) break;  // what is there first; the error comes with the next call
        co_return fail(std::move(filled.error()));
      }
      index = 0;
    }
    for (; *index < handle.entries.size() && used < bytes; ++*index) {
      auto entry = co_await directory_entry(handle, *index, plus);
      handle.give(handle.entries[*index]);
      cookie = handle.entries[*index].cookie;
      if (!entry) continue;
      used += overhead + entry->name.size();
      page.entries.push_back(std::move(*entry));
    }
    if (*index == handle.entries.size() && handle.eof) {
      std::lock_guard lock(nfs4_node(handle.node).mutex);
      nfs4_node(handle.node).listing_change = handle.change;
      nfs4_node(handle.node).listing_known = true;
      break;
    }
  }
  co_return page;
}

Task<> Nfs4Filesystem::releasedir(OpenDirectoryRef) {
  co_return;
}

Task<Result<>> Nfs4Filesystem::fsyncdir(RequestContext, OpenDirectoryRef) {
  // Section 18.4.4 and its like: CREATE, REMOVE, RENAME and LINK are on stable storage when they are
  // answered.
  co_return Result<>{};
}

}  // namespace nfsrdma::client
