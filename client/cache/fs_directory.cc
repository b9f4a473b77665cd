// SPDX-License-Identifier: Apache-2.0
// Directory listings (RFC 8881 section 18.23, RFC 1813 sections 3.3.16 and 3.3.17). Offsets are the server's
// cookies, so telldir(3) and seekdir(3) work while other clients change the directory. The protocol does not
// return "." and "..": they have the offsets 1 and 2, which are never cookies.
#include <algorithm>
#include <cerrno>
#include <set>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "client/cache/listing.h"
#include "transport/runtime/log.h"
#include "xdr/nfs4_status.h"

namespace nfsrdma::client {
namespace {

constexpr size_t kLongestName = 1024;  // FUSE_NAME_MAX of the kernels with the smallest limit
// Bytes per entry in a front end's buffer without the name: with attributes, and without.
constexpr size_t kPlusBytes = 160, kPlainBytes = 32;
// How often a listing with invalid cookies restarts to find one more new entry.
constexpr int kMaxRestarts = 20;
// The limit of repeated entries in one restart, beyond twice the entries given before. More means an endless
// circle.
constexpr size_t kMostDropped = 1000;
// Replies in a row that hold only names that no file can have.
constexpr int kMostImpossible = 256;

Error impossible_only() {
  return system_error(EIO, "READDIR", "the server sends impossible names only");
}

bool place_is_gone(const Error& e) {
  return e.is_status(nfs4::NFS4ERR_NOT_SAME) || e.is_status(nfs4::NFS4ERR_BAD_COOKIE);
}

}  // namespace

Result<> Listing::answer(uint64_t cookie, bool with_attributes, std::vector<ListedEntry> answered, bool end,
                         NameBelief of) {
  if (answered.empty() && !end)
    return fail(system_error(EIO, "READDIR", "the server sent neither entries nor the end"));
  const bool reserved = std::any_of(answered.begin(), answered.end(),
                                    [](const ListedEntry& e) { return e.cookie <= kAfterDotDot; });
  if (reserved) return fail(system_error(EIO, "READDIR", "the server uses reserved cookies"));
  drop_impossible(answered, end);
  entries = std::move(answered);
  eof = end;
  from = cookie;
  plus = with_attributes;
  filled = true;
  delivered = 0;
  belief = of;
  drop_repeats();
  return {};
}

// The kernel rejects a reply from the first impossible name on, and would never forget the lookups in the
// rest.
void Listing::drop_impossible(std::vector<ListedEntry>& answered, bool end) {
  beyond = 0;
  const uint64_t last = answered.empty() ? 0 : answered.back().cookie;
  const size_t dropped = std::erase_if(answered, [](const ListedEntry& e) {
    return e.name.size() > kLongestName || !CachingFilesystem::valid_name(e.name);
  });
  if (dropped == 0) return;
  static log::Throttle throttle;
  if (throttle.hit() != 0) log::warn("the server lists names that no file can have; they are left out");
  if (!answered.empty()) {
    answered.back().cookie = last;
  } else if (!end) {
    beyond = last;
  }
}

bool Listing::end_at(uint64_t cookie) {
  from = cookie;
  eof = filled = true;
  return !std::exchange(told, true);
}

void CachingFilesystem::cookies_go_in_a_circle(const NodeRef& node) const {
  std::unique_lock lock(cached_node(node).mutex);
  const uint64_t ino = cached_node(node).attributes.get().ino;
  lock.unlock();
  log::warn(
      "the server's READDIR cookies of directory {} go in a circle: what they led to is listed, and may not "
      "be all{}",
      called(*node.get(), ino), how_to_find(*node.get(), ino));
}

Task<Result<uint32_t>> CachingFilesystem::ask_access_and_list(RequestContext ctx, Listing& listing,
                                                              uint32_t wanted, bool) {
  co_return co_await ask_access(std::move(ctx), listing.node, wanted);
}

Task<Result<OpenDirectoryReply>> CachingFilesystem::opendir(RequestContext ctx, NodeRef node) {
  CachedNode& n = cached_node(node);
  const auto listing = std::make_shared<Listing>(node);
  bool asks = options_.close_to_open, lists = false;
  {
    std::lock_guard lock(n.mutex);
    // Close-to-open holds for directories, too: the current state, not that of up to acdirmax ago.
    asks = asks || !known_access(ctx, n);
    // A directory is usually opened to be listed, so its listing is fetched with the opening. If the last
    // opening was for something else (fsync, openat), the listing was not read; then it is not fetched.
    const bool kept = n.kernel.has_listing_of(n.attributes.get().change);
    lists = !kept && !n.use.listing_unread;
  }
  // The kernel may keep its listing while the attributes of the files have expired.
  lists = asks && (lists || entries_are_due(node));
  Result<uint32_t> bits = fail(Error{});
  if (lists) {
    listing->begin(0);
    bits = co_await ask_access_and_list(ctx, *listing, nfs4::ACCESS4_READ, options_.readdirplus);
  } else if (asks) {
    bits = co_await ask_access(ctx, node, nfs4::ACCESS4_READ);
  } else {
    bits = co_await access_bits(ctx, node, nfs4::ACCESS4_READ);
  }
  if (!bits) co_return fail(std::move(bits.error()));
  if (*bits == 0) co_return fail(system_error(EACCES, "READDIR"));
  if (!options_.close_to_open) NFSRDMA_CO_TRY(co_await revalidate(ctx, node));
  if (listing->filled && listing->plus) co_await sweep_at_opening(*listing);
  OpenDirectoryReply reply;
  reply.directory = listing;
  {
    std::lock_guard lock(n.mutex);
    reply.keep_cache = n.kernel.has_listing_of(n.attributes.get().change);
    if (!reply.keep_cache) n.kernel.drop_listing();
    // Otherwise the kernel gets the attributes with the listing, and its later requests say nothing about
    // their use.
    if (listing->filled) n.use.entries_unasked = reply.keep_cache;
  }
  {
    std::lock_guard lock(listings_mutex_);
    listings_.push_back(listing);
  }
  listing->ahead = listing->filled && !reply.keep_cache;
  if (listing->filled && reply.keep_cache) keep_waiting(*listing);
  co_return reply;
}

Task<Result<>> CachingFilesystem::fill(RequestContext ctx, Listing& listing, uint64_t cookie, bool plus) {
  listing.sift = listing.sift && listing.all_given_until(cookie);
  if (listing.sift) co_return co_await find_place(ctx, listing, cookie, plus, cookie);
  listing.begin(cookie);
  Result<> read = co_await read_entries(ctx, listing, cookie, plus);
  for (int more = 0; read && listing.beyond != 0; ++more) {
    if (more == kMostImpossible) co_return fail(impossible_only());
    read = co_await read_entries(ctx, listing, listing.beyond, plus);
    listing.from = cookie;
  }
  if (!read) {
    if (cookie == 0 || !place_is_gone(read.error())) co_return read;
  } else if (!listing.leads_back() && !(listing.all_given_until(cookie) && listing.ends_again())) {
    expect(listing);
    co_return read;
  } else if (!listing.all_given_until(cookie)) {
    listing.drop_given();
    if (listing.end_at(cookie)) cookies_go_in_a_circle(listing.node);
    co_return read;
  }
  co_return co_await find_place(ctx, listing, cookie, plus, 0);
}

void CachingFilesystem::expect(const Listing& listing) {
  for (const ListedEntry& entry : listing.entries) {
    if (entry.complete) table_.prefetch(entry.handle());
  }
}

// The server's cookies ended or go in a circle. The listing restarts and leaves out the entries given before.
// After seekdir(3), it continues behind the entry with the same cookie. If a server's cookies end with each
// change, a directory that changes between any two READDIRs cannot be read.
Task<Result<>> CachingFilesystem::find_place(RequestContext ctx, Listing& listing, uint64_t cookie, bool plus,
                                             uint64_t first) {
  const bool by_name = listing.sift = listing.all_given_until(cookie);
  const std::unordered_set<size_t> seen = listing.given_names();
  const uint64_t change = listing.change;
  for (int turn = 0; turn < kMaxRestarts; ++turn) {
    bool passed = by_name;
    std::set<uint64_t> begun;
    const uint64_t start = turn == 0 ? first : 0;
    size_t dropped = 0;
    int impossible = 0;
    for (uint64_t next = start;;) {
      const bool new_place = begun.insert(next).second;
      if (!new_place && !by_name)
        co_return fail(system_error(EIO, "READDIR", "the server's cookies lead back"));
      if (!new_place || dropped > kMostDropped + 2 * seen.size()) {
        if (start != 0) break;  // restart at the beginning: the directory may have changed on the server
        if (listing.end_at(cookie)) cookies_go_in_a_circle(listing.node);
        co_return Result<>{};
      }
      Result<> read = co_await read_entries(ctx, listing, next, plus);
      listing.change = change;  // the entries given before belong to this version
      if (!read && next != 0 && place_is_gone(read.error())) break;
      if (!read) co_return read;
      if (listing.beyond != 0 && ++impossible > kMostImpossible) co_return fail(impossible_only());
      const bool leads_on = !listing.entries.empty() || listing.beyond != 0;
      const uint64_t last = leads_on ? listing.last_cookie() : next;
      const size_t erased = std::erase_if(listing.entries, [&](const ListedEntry& e) {
        if (by_name) return seen.contains(std::hash<std::string_view>{}(e.name));
        const bool before = !passed;
        passed = passed || e.cookie == cookie;
        return before;
      });
      if (by_name) dropped += erased;
      if (!listing.entries.empty() || (listing.eof && passed)) {
        listing.from = cookie;
        co_return Result<>{};
      }
      if (listing.eof) co_return fail(system_error(EIO, "READDIR", "the place in the directory is gone"));
      next = last;
    }
  }
  co_return fail(system_error(EIO, "READDIR", "the directory changes faster than it can be read"));
}

Task<std::optional<DirectoryEntry>> CachingFilesystem::directory_entry(Listing& listing, size_t index,
                                                                       bool plus) {
  const ListedEntry& from = listing.entries[index];
  DirectoryEntry entry;
  entry.name = from.name;
  entry.next = from.cookie;
  entry.type = from.type;
  entry.ino = from.ino != 0 ? from.ino : 1;  // readdir(3) users skip inode 0
  if (!plus || !from.complete) co_return entry;
  const NodeRef node = table_.get(from.handle(), from.export_index);
  // Our changes to the file after the READDIR were forgotten with its dropped Node, so the attributes are not
  // used.
  if (table_.dropped_since(from.handle(), listing.belief.order)) co_return entry;
  co_await book_listed(node, from, listing.belief);
  switch (table_.names().learn(*listing.node.get(), entry.name, node.get(), listing.belief)) {
    case NameCache::Learnt::kStored: break;
    case NameCache::Learnt::kAbsent: co_return std::nullopt;
    case NameCache::Learnt::kOther: co_return entry;
  }
  if (doubtful(node)) co_return entry;
  Entry full = cached_entry(node, entry_ttl(listing.node, listing.belief));
  entry.ino = full.attributes.ino;
  entry.entry = std::move(full);
  co_return entry;
}

// The kernel puts the replies to several readers into one cached listing, each behind the last. With two
// different listings in progress it would mix them, whichever ends it.
void CachingFilesystem::note_listing_begun(const Listing& listing) {
  CachedNode& n = cached_node(listing.node);
  std::lock_guard lock(n.mutex);
  n.kernel.listing_begins(listing.change);
}

void CachingFilesystem::take_back_old_listings() {
  std::vector<NodeRef> old;
  {
    const TimePoint now = Clock::now();
    std::lock_guard lock(listings_mutex_);
    std::erase_if(listings_, [&](const std::weak_ptr<Listing>& open) {
      const std::shared_ptr<Listing> listing = open.lock();
      if (!listing) return true;
      CachedNode& n = cached_node(listing->node);
      std::lock_guard node_lock(n.mutex);
      if (!n.kernel.has_listing() || n.attributes.fresh(now, promises_hold())) return false;
      n.kernel.drop_listing();
      old.push_back(listing->node);
      return false;
    });
  }
  for (NodeRef& directory : old) kernel_.invalidate_data(std::move(directory));
}

Task<Result<DirectoryPage>> CachingFilesystem::readdir(RequestContext ctx, OpenDirectoryRef directory,
                                                       uint64_t offset, size_t bytes, bool plus) {
  auto& listing = static_cast<Listing&>(*directory);
  auto guard = co_await listing.mutex.lock();
  plus = plus && options_.readdirplus;
  DirectoryPage page;
  size_t used = 0;
  const size_t overhead = plus ? kPlusBytes : kPlainBytes;
  if (offset < Listing::kAfterDotDot) {
    const uint64_t self = known_attributes(listing.node).ino;
    uint64_t parent = self;
    if (auto name = table_.names().name_of(*listing.node.get()))
      parent = known_attributes(name->directory).ino;
    if (offset < Listing::kAfterDot)
      page.entries.push_back({".", self, S_IFDIR, Listing::kAfterDot, std::nullopt});
    page.entries.push_back({"..", parent, S_IFDIR, Listing::kAfterDotDot, std::nullopt});
    used = page.entries.size() * (overhead + 8);
  }
  uint64_t cookie = offset <= Listing::kAfterDotDot ? 0 : offset;
  if (offset < Listing::kAfterDot) {
    // rewinddir(3): the directory's current state. The listing that came with the opening is used if it is
    // unchanged.
    std::lock_guard lock(cached_node(listing.node).mutex);
    cached_node(listing.node).use.listing_unread = false;
    listing.start(listing.ahead && cached_node(listing.node).attributes.get().change == listing.change);
  } else {
    listing.seek(cookie);
  }
  // An entry that does not fit must not be recorded as known to the kernel.
  const auto fits = [&](const ListedEntry& e) {
    return page.entries.empty() || used + overhead + e.name.size() <= bytes;
  };
  for (bool room = true; room && used < bytes;) {
    std::optional<size_t> index = listing.position_after(cookie, plus);
    if (!index || (*index == listing.entries.size() && !listing.eof)) {
      Result<> filled = co_await fill(ctx, listing, cookie, plus);
      if (!filled) {
        if (!page.entries.empty()) break;  // the entries so far; the next call returns the error
        co_return fail(std::move(filled.error()));
      }
      index = 0;
    }
    if (cookie == 0) note_listing_begun(listing);
    for (; *index < listing.entries.size() && used < bytes; ++*index) {
      if (room = fits(listing.entries[*index]); !room) break;
      auto entry = co_await directory_entry(listing, *index, plus);
      listing.give(listing.entries[*index]);
      cookie = listing.entries[*index].cookie;
      if (!entry) continue;
      used += overhead + entry->name.size();
      page.entries.push_back(std::move(*entry));
    }
    if (room && *index == listing.entries.size() && listing.eof) {
      // The end tells the kernel that its listing is complete.
      std::lock_guard lock(cached_node(listing.node).mutex);
      CachedNode& n = cached_node(listing.node);
      if (page.entries.empty()) n.kernel.listing_ends(listing.change);
      break;
    }
  }
  co_return page;
}

Task<> CachingFilesystem::releasedir(OpenDirectoryRef directory) {
  const auto& listing = static_cast<const Listing&>(*directory);
  if (!listing.ahead) co_return;
  std::lock_guard lock(cached_node(listing.node).mutex);
  cached_node(listing.node).use.listing_unread = true;
}

Task<Result<>> CachingFilesystem::fsyncdir(RequestContext, OpenDirectoryRef) {
  // CREATE, REMOVE, RENAME and LINK are on stable storage when they are answered (section 18.4.4 and others).
  co_return Result<>{};
}

}  // namespace nfsrdma::client
