// READDIR (RFC 8881 section 18.23). Offsets are the server's cookies, so that telldir and seekdir outlive
// changes by others; "." and "..", which the protocol does not return, are offsets 1 and 2, which its cookies
// never are.
#include <algorithm>
#include <cerrno>
#include <set>

#include "client/nfs4/nfs4_filesystem.h"
#include "xdr/nfs4/dir_ops.h"
#include "xdr/nfs4/handle_ops.h"

namespace nfsrdma::client {
namespace {

constexpr uint64_t kAfterDot = 1, kAfterDotDot = 2;
constexpr uint32_t kReplyBytes = 128u << 10;
// What an entry takes in a front end's buffer besides its name: with attributes, and without.
constexpr size_t kPlusBytes = 160, kPlainBytes = 32;

}  // namespace

struct Nfs4Filesystem::DirectoryHandle final : OpenDirectory {
  DirectoryHandle(NodeRef n) : node(std::move(n)) {}
  const NodeRef node;
  AsyncMutex mutex;
  // The last READDIR's answer: entries that follow cookie `from`.
  std::vector<nfs4::entry4> entries;
  uint64_t from = 0;
  bool filled = false, plus = false, eof = false;
  uint64_t order = 0;
  uint64_t change = 0;  // of the directory when the listing began
  nfs4::verifier4 verifier;
  size_t delivered = 0;      // of `entries`
  std::set<uint64_t> begun;  // where READDIRs of this listing began, without a jump between them

  // Whether going on after an answer that ends with `last` leads to entries that were not seen yet. Cookies
  // may come twice within an answer: nfs-ganesha's do when a directory changes under it.
  bool leads_on(uint64_t cookie, uint64_t last) {
    if (cookie == 0 || entries.empty() || entries.back().cookie != cookie) begun.clear();
    begun.insert(cookie);
    return !begun.contains(last);
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
  const nfs4::nfs_fh4 fh = fh_of(handle.node);
  const uint64_t order = nodes_.next_start();
  nfs4::READDIR4args args;
  args.cookie = cookie;
  // Section 18.23.3: the verifier goes with cookies other than zero.
  if (cookie != 0) args.cookieverf = handle.verifier;
  args.maxcount = std::min(kReplyBytes, session_.max_response_bytes() - 1024);
  args.dircount = args.maxcount;
  args.attr_request = plus ? kEntryAttributes : kNameAttributes;
  for (int turn = 0;; ++turn) {
    auto build = [&](CompoundBuilder& b) { b.putfh(fh).getattr(kFileAttributes).add(args); };
    const Request request{nfs4::OP_READDIR, ctx.credential, false, build, {}};
    Result<CompoundReply> reply = co_await session_.run(request);
    if (!reply) co_return fail(std::move(reply.error()));
    if (Result<> put = reply->expect<nfs4::PUTFH4res>(); !put)
      co_return fail(gone(handle.node, std::move(put.error())));
    auto attributes = reply->take<nfs4::GETATTR4res>();
    if (!attributes) co_return fail(std::move(attributes.error()));
    if (cookie == 0) handle.change = attributes->resok4.obj_attributes.change;
    co_await apply(handle.node, std::move(attributes->resok4.obj_attributes), order, Cause::kAsked);
    auto res = reply->take<nfs4::READDIR4res>();
    if (!res) {
      // The directory changed so that the server gave out a new verifier; its cookies may well be good still.
      if (turn == 0 && cookie != 0 && res.error().is_status(nfs4::NFS4ERR_NOT_SAME)) {
        args.cookieverf = {};
        continue;
      }
      co_return fail(std::move(res.error()));
    }
    auto& list = res->resok4.reply;
    if (list.entries.empty() && !list.eof)
      co_return fail(system_error(EIO, "READDIR", "the server sent neither entries nor the end"));
    const bool reserved = std::any_of(list.entries.begin(), list.entries.end(),
                                      [](const auto& e) { return e.cookie <= kAfterDotDot; });
    if (reserved) co_return fail(system_error(EIO, "READDIR", "the server uses reserved cookies"));
    const uint64_t last = list.entries.empty() ? cookie : list.entries.back().cookie;
    const bool leads_on = handle.leads_on(cookie, last);
    if (!list.eof && !leads_on)
      co_return fail(system_error(EIO, "READDIR", "the server's cookies lead back"));
    handle.entries = std::move(list.entries);
    handle.eof = list.eof;
    handle.verifier = res->resok4.cookieverf;
    handle.from = cookie;
    handle.plus = plus;
    handle.filled = true;
    handle.delivered = 0;
    handle.order = order;
    co_return Result<>{};
  }
}

Task<DirectoryEntry> Nfs4Filesystem::directory_entry(DirectoryHandle& handle, size_t index, bool plus) {
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
  Entry full = co_await make_entry(a.filehandle, a, handle.order, Cause::kAsked);
  nodes_.names().put(*handle.node.get(), entry.name, full.node.get(), Clock::now());
  full.entry_ttl = entry_ttl(handle.node);
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
      used += overhead + handle.entries[*index].name.size();
      DirectoryEntry entry = co_await directory_entry(handle, *index, plus);
      page.entries.push_back(std::move(entry));
      cookie = page.entries.back().next;
      handle.delivered = *index + 1;
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
