// Attributes of many files of a directory by one READDIR: see sweeps.h for when, and opendir(), which brings
// the entries of a directory along when those that were asked for after its last opening are old.
#include <algorithm>

#include "client/cache/caching_filesystem.h"
#include "client/cache/listing.h"

namespace nfsrdma::client {
namespace {

// As many of a directory's files are looked at to find out whether its files' attributes are old.
constexpr size_t kSample = 8;

}  // namespace

bool CachingFilesystem::sweeps() const {
  return options_.readdirplus && !options_.noac && options_.acregmin > Duration::zero();
}

bool CachingFilesystem::entries_are_due(const NodeRef& directory) {
  if (!sweeps()) return false;
  {
    std::lock_guard lock(cached_node(directory).mutex);
    if (cached_node(directory).entries_unasked) return false;
  }
  const std::vector<NodeRef> some = table_.names().children(*directory.get(), kSample);
  const auto old = std::count_if(some.begin(), some.end(),
                                 [this](const NodeRef& child) { return !fresh(cached_node(child)); });
  return !some.empty() && 2 * static_cast<size_t>(old) > some.size();
}

void CachingFilesystem::note_entry_asked(const NodeRef& directory) {
  std::lock_guard lock(cached_node(directory).mutex);
  cached_node(directory).entries_unasked = false;
}

Task<size_t> CachingFilesystem::book_known(Listing& listing) {
  size_t refreshed = 0;
  for (const ListedEntry& entry : listing.entries) {
    if (!entry.complete) continue;
    const NodeRef node = table_.find(entry.handle);
    if (!node) continue;
    CachedNode& n = cached_node(node);
    const bool was_old = !fresh(n);
    co_await book(node, entry.attributes, listing.belief.order, Cause::kAsked);
    table_.names().learn(*listing.node.get(), entry.name, node.get(), listing.belief);
    if (!was_old) continue;
    ++refreshed;
    std::lock_guard lock(n.mutex);
    n.swept = true;
  }
  co_return refreshed;
}

Task<> CachingFilesystem::sweep_at_opening(Listing& listing) {
  const size_t known = co_await book_known(listing);
  const uint64_t next = listing.entries.empty() ? 0 : listing.entries.back().cookie;
  auto sweep = std::make_shared<Sweep>();
  sweep->since = Clock::now();
  sweep->read_on(next, listing.verifier, listing.eof, listing.entries.size(), known);
  table_.sweeps().put(*listing.node.get(), std::move(sweep));
}

Task<bool> CachingFilesystem::sweep_for(RequestContext ctx, NodeRef node) {
  if (!sweeps()) co_return false;
  const auto name = table_.names().name_of(*node.get());
  if (!name) co_return false;
  note_entry_asked(name->directory);
  const SweepRef sweep = table_.sweeps().missed(*name->directory.get(), Clock::now(), options_.acregmin);
  if (!sweep) co_return false;
  auto turn = co_await sweep->mutex.lock();
  if (fresh(cached_node(node))) co_return true;  // with somebody else's
  if (!sweep->worth_reading()) co_return false;
  Listing listing(name->directory);
  listing.verifier = sweep->verifier;
  const Result<> read = co_await read_entries(ctx, listing, sweep->next, true);
  if (!read || listing.entries.empty()) {
    sweep->over = true;
    co_return false;
  }
  const size_t known = co_await book_known(listing);
  sweep->read_on(listing.entries.back().cookie, listing.verifier, listing.eof, listing.entries.size(), known);
  co_return fresh(cached_node(node));
}

}  // namespace nfsrdma::client
