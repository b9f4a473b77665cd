// SPDX-License-Identifier: Apache-2.0
// Directory listings (RFC 8881 section 18.23, RFC 1813 sections 3.3.16 and 3.3.17). Offsets are the server's
// cookies, so telldir(3) and seekdir(3) work while other clients change the directory. The protocol does not
// return "." and "..": they have the offsets 1 and 2, which are never cookies.
#include "client/core/directory_service.h"

#include <algorithm>
#include <cerrno>
#include <set>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "client/core/names/listing.h"
#include "client/core/names/name_in_log.h"
#include "transport/runtime/log.h"
#include "transport/runtime/mutex.h"
#include "xdr/nfs4_status.h"

namespace nfsrdma::client {
namespace {

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

void DirectoryService::cookies_go_in_a_circle(const NodeRef& node) const {
  MutexLock lock(cached_node(node).mutex);
  const uint64_t ino = cached_node(node).attributes.get().ino;
  lock.unlock();
  log::warn(
      "the server's READDIR cookies of directory {} go in a circle: what they led to is listed, and may not "
      "be all{}",
      called(table_.names(), *node.get(), ino), how_to_find(table_.names(), *node.get(), ino));
}

Task<Result<OpenDirectoryReply>> DirectoryService::opendir(RequestContext ctx, NodeRef node) {
  CachedNode& n = cached_node(node);
  const auto listing = std::make_shared<Listing>(node);
  bool asks = options_.close_to_open, lists = false;
  {
    MutexLock lock(n.mutex);
    // Close-to-open also applies to directories: show the current state, not a state up to acdirmax old.
    asks = asks || !access_.known_access(ctx, n);
    // A directory is usually opened to be listed, so its listing is fetched with the opening. If the last
    // opening was for something else (fsync, openat), the listing was not read; then it is not fetched.
    const bool kept = n.kernel.has_listing_of(n.attributes.get().change);
    lists = !kept && !n.use.listing_unread;
  }
  // The kernel may keep its listing while the attributes of the files have expired.
  lists = asks && (lists || sweeper_.entries_are_due(node));
  Result<uint32_t> bits = fail(Error{});
  if (lists) {
    listing->begin(0);
    bits = co_await names_.ask_access_and_list(ctx, *listing, nfs4::ACCESS4_READ, options_.readdirplus);
  } else if (asks) {
    bits = co_await access_.ask(ctx, node, nfs4::ACCESS4_READ);
  } else {
    bits = co_await access_.access_bits(ctx, node, nfs4::ACCESS4_READ);
  }
  if (!bits) co_return fail(std::move(bits.error()));
  if (*bits == 0) co_return fail(system_error(EACCES, "READDIR"));
  if (!options_.close_to_open) NFSRDMA_CO_TRY(co_await sweeper_.revalidate(ctx, node));
  if (listing->filled && listing->plus) co_await sweeper_.sweep_at_opening(*listing);
  OpenDirectoryReply reply;
  reply.directory = listing;
  {
    MutexLock lock(n.mutex);
    reply.keep_cache = n.kernel.has_listing_of(n.attributes.get().change);
    if (!reply.keep_cache) n.kernel.drop_listing();
    // If the kernel does not keep its listing, it gets the attributes with the listing. Then its later
    // requests do not show whether the attributes are used.
    if (listing->filled) n.use.entries_unasked = reply.keep_cache;
  }
  {
    MutexLock lock(listings_mutex_);
    listings_.push_back(listing);
  }
  listing->ahead = listing->filled && !reply.keep_cache;
  if (listing->filled && reply.keep_cache) sweeper_.keep_waiting(*listing);
  co_return reply;
}

Task<Result<>> DirectoryService::fill(RequestContext ctx, Listing& listing, uint64_t cookie, bool plus) {
  listing.given_again = listing.given_again && listing.all_given_until(cookie);
  if (listing.given_again) co_return co_await find_place(ctx, listing, cookie, plus, cookie);
  listing.begin(cookie);
  Result<> read = co_await names_.read_entries(ctx, listing, cookie, plus);
  for (int more = 0; read && listing.beyond != 0; ++more) {
    if (more == kMostImpossible) co_return fail(impossible_only());
    read = co_await names_.read_entries(ctx, listing, listing.beyond, plus);
    listing.from = cookie;
  }
  if (!read) {
    if (cookie == 0 || !place_is_gone(read.error())) co_return read;
  } else if (!listing.leads_back() && !(listing.all_given_until(cookie) && listing.ends_again())) {
    sweeper_.expect(listing);
    co_return read;
  } else if (!listing.all_given_until(cookie)) {
    listing.drop_given();
    if (listing.end_at(cookie)) cookies_go_in_a_circle(listing.node);
    co_return read;
  }
  co_return co_await find_place(ctx, listing, cookie, plus, 0);
}

// The server's cookies became invalid or go in a circle. The listing restarts and leaves out the entries
// given before. After seekdir(3), it continues behind the entry with the same cookie. If each change of a
// directory invalidates its cookies, a directory that changes between any two READDIRs cannot be read.
Task<Result<>> DirectoryService::find_place(RequestContext ctx, Listing& listing, uint64_t cookie, bool plus,
                                            uint64_t first) {
  const bool by_name = listing.given_again = listing.all_given_until(cookie);
  const std::unordered_set<size_t> seen = listing.given_names();
  const uint64_t change = listing.change;
  for (int attempt = 0; attempt < kMaxRestarts; ++attempt) {
    bool passed = by_name;
    std::set<uint64_t> begun;
    const uint64_t start = attempt == 0 ? first : 0;
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
      Result<> read = co_await names_.read_entries(ctx, listing, next, plus);
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

Task<std::optional<DirectoryEntry>> DirectoryService::directory_entry(Listing& listing, size_t index,
                                                                      bool plus) {
  const ListedEntry& from = listing.entries[index];
  DirectoryEntry entry;
  entry.name = from.name;
  entry.next = from.cookie;
  entry.type = from.type;
  entry.ino = from.ino != 0 ? from.ino : 1;  // readdir(3) users skip inode 0
  if (!plus || !from.complete) co_return entry;
  const NodeRef node = table_.get(from.handle(), from.export_index);
  // The file's Node was dropped after the READDIR, and with it the record of our changes to the file. So the
  // attributes are not used.
  if (table_.dropped_since(from.handle(), listing.belief.order)) co_return entry;
  co_await attributes_.record_listed(node, from, listing.belief);
  switch (table_.names().learn(*listing.node.get(), entry.name, node.get(), listing.belief)) {
    case NameCache::Learnt::kStored: break;
    case NameCache::Learnt::kAbsent: co_return std::nullopt;
    case NameCache::Learnt::kOther: co_return entry;
  }
  if (AttributeService::doubtful(node)) co_return entry;
  Entry full = attributes_.cached_entry(node, names_.entry_ttl(listing.node, listing.belief));
  entry.ino = full.attributes.ino;
  entry.entry = std::move(full);
  co_return entry;
}

// The kernel appends the replies of all readers to one cached listing. If two readers read different versions
// of the directory, the cached listing mixes both.
void DirectoryService::note_listing_begun(const Listing& listing) {
  CachedNode& n = cached_node(listing.node);
  MutexLock lock(n.mutex);
  n.kernel.listing_begins(listing.change);
}

void DirectoryService::take_back_old_listings() {
  std::vector<NodeRef> old;
  {
    const TimePoint now = Clock::now();
    MutexLock lock(listings_mutex_);
    std::erase_if(listings_, [&](const std::weak_ptr<Listing>& open) {
      const std::shared_ptr<Listing> listing = open.lock();
      if (!listing) return true;
      CachedNode& n = cached_node(listing->node);
      MutexLock node_lock(n.mutex);
      if (!n.kernel.has_listing() || n.attributes.fresh(now, protocol_.promises_hold())) return false;
      n.kernel.drop_listing();
      old.push_back(listing->node);
      return false;
    });
  }
  for (NodeRef& directory : old) kernel_.invalidate_data(std::move(directory));
}

Task<Result<DirectoryPage>> DirectoryService::readdir(RequestContext ctx, OpenDirectoryRef directory,
                                                      uint64_t offset, size_t bytes, bool plus) {
  auto& listing = static_cast<Listing&>(*directory);
  auto guard = co_await listing.mutex.lock();
  plus = plus && options_.readdirplus;
  DirectoryPage page;
  size_t used = 0;
  const size_t overhead = plus ? kPlusBytes : kPlainBytes;
  if (offset < Listing::kAfterDotDot) {
    const uint64_t self = AttributeService::known_attributes(listing.node).ino;
    uint64_t parent = self;
    if (auto name = table_.names().name_of(*listing.node.get()))
      parent = AttributeService::known_attributes(name->directory).ino;
    if (offset < Listing::kAfterDot)
      page.entries.push_back({".", self, S_IFDIR, Listing::kAfterDot, std::nullopt});
    page.entries.push_back({"..", parent, S_IFDIR, Listing::kAfterDotDot, std::nullopt});
    used = page.entries.size() * (overhead + 8);
  }
  uint64_t cookie = offset <= Listing::kAfterDotDot ? 0 : offset;
  if (offset < Listing::kAfterDot) {
    // rewinddir(3): the directory's current state. The listing that came with the opening is used if it is
    // unchanged.
    MutexLock lock(cached_node(listing.node).mutex);
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
      // An empty page tells the kernel that its listing is complete.
      CachedNode& n = cached_node(listing.node);
      MutexLock lock(n.mutex);
      if (page.entries.empty()) n.kernel.listing_ends(listing.change);
      break;
    }
  }
  co_return page;
}

Task<> DirectoryService::releasedir(OpenDirectoryRef directory) {
  const auto& listing = static_cast<const Listing&>(*directory);
  if (!listing.ahead) co_return;
  MutexLock lock(cached_node(listing.node).mutex);
  cached_node(listing.node).use.listing_unread = true;
}

}  // namespace nfsrdma::client
