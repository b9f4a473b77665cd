// SPDX-License-Identifier: Apache-2.0
// Sweeps: one READDIR for many files of a directory (sweeps.h says when). Also decides whether opendir()
// fetches the entries with the opening: it does if the attributes that were used after the last opening have
// expired.
#include "client/core/sweeper.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "client/core/names/listing.h"
#include "client/core/names/valid_name.h"
#include "transport/runtime/mutex.h"
#include "xdr/nfs4_status.h"

namespace nfsrdma::client {
namespace {

// The number of files that are sampled to see whether a directory's attributes have expired.
constexpr size_t kSample = 8;

}  // namespace

Task<Result<>> Sweeper::revalidate(RequestContext ctx, NodeRef node) {
  CachedNode& n = cached_node(node);
  bool good = false, swept = false;
  {
    MutexLock lock(n.mutex);
    good = n.attributes.fresh(Clock::now(), protocol_.promises_hold());
    swept = good && std::exchange(n.swept, false);
  }
  if (swept) {
    if (const auto name = table_.names().name_of(*node.get())) note_asked(name->directory);
  }
  if (!good) good = co_await sweep_for(ctx, node);
  if (good) {
    attribute_hits_.fetch_add(1, std::memory_order_relaxed);
    co_return Result<>{};
  }
  NFSRDMA_CO_TRY(co_await attributes_.fetch(ctx, node));
  co_return co_await attributes_.resolve_doubt(ctx, node);
}

bool Sweeper::sweeps() const {
  return options_.readdirplus && !options_.noac && options_.acregmin > Duration::zero();
}

bool Sweeper::entries_are_due(const NodeRef& directory) {
  if (!sweeps()) return false;
  {
    MutexLock lock(cached_node(directory).mutex);
    if (cached_node(directory).use.entries_unasked) return false;
  }
  const std::vector<NodeRef> some = table_.names().children(*directory.get(), kSample);
  const auto old = std::count_if(some.begin(), some.end(), [this](const NodeRef& child) {
    return !attributes_.fresh(cached_node(child));
  });
  return !some.empty() && 2 * static_cast<size_t>(old) > some.size();
}

SweepRef Sweeper::note_asked(const NodeRef& directory) {
  {
    MutexLock lock(cached_node(directory).mutex);
    cached_node(directory).use.entries_unasked = false;
  }
  return table_.sweeps().asked(*directory.get(), Clock::now(), options_.acregmin);
}

Task<> Sweeper::record_known(const Listing& listing) {
  expect(listing);
  for (const ListedEntry& entry : listing.entries) {
    if (!entry.complete) continue;
    const NodeRef node = table_.find(entry.handle());
    if (!node) continue;
    CachedNode& n = cached_node(node);
    const bool was_old = !attributes_.fresh(n);
    co_await attributes_.record_listed(node, entry, listing.belief);
    table_.names().learn(*listing.node.get(), entry.name, node.get(), listing.belief);
    if (!was_old) continue;
    MutexLock lock(n.mutex);
    n.swept = true;
  }
}

void Sweeper::keep_waiting(Listing& listing) {
  std::vector<ListedEntry> entries = std::move(listing.entries);
  listing.drop_answer();
  const size_t longest = protocol_.limits_of(listing.node).name_max;
  std::erase_if(entries, [&](const ListedEntry& e) {
    return !e.complete || e.name.size() > longest || !valid_name(e.name) || table_.find(e.handle());
  });
  table_.sweeps().keep(*listing.node.get(), std::move(entries), listing.belief);
}

Task<> Sweeper::sweep_at_opening(Listing& listing) {
  co_await record_known(listing);
  const SweepRef sweep = table_.sweeps().at(*listing.node.get(), Clock::now(), options_.acregmin);
  if (!sweep->mutex.try_lock()) co_return;
  const AsyncMutex::Guard guard(&sweep->mutex);
  sweep->go_on_after(listing.last_cookie(), listing.verifier, listing.eof);
}

Task<> Sweeper::read_on(RequestContext ctx, NodeRef directory, Sweep& sweep) {
  Listing listing(directory);
  listing.verifier = sweep.verifier();
  listing.reply_bytes = sweep.reply_bytes();
  const Result<> read = co_await names_.read_entries(ctx, listing, sweep.next(), true);
  const auto serves = [](const ListedEntry& e) { return e.complete; };
  const bool useful =
      listing.entries.empty() || std::any_of(listing.entries.begin(), listing.entries.end(), serves);
  if (!read && read.error().errnum == EACCES) co_return sweep.refuse(ctx.credential->uid());
  if (!read || !useful) co_return sweep.end();
  sweep.read_on(listing.last_cookie(), listing.verifier, listing.eof, listing.entries.size());
  co_await record_known(listing);
  keep_waiting(listing);
}

Task<bool> Sweeper::sweep_for(RequestContext ctx, NodeRef node) {
  if (!sweeps()) co_return false;
  const auto name = table_.names().name_of(*node.get());
  if (!name) co_return false;
  const SweepRef sweep = note_asked(name->directory);
  auto guard = co_await sweep->mutex.lock();
  if (attributes_.fresh(cached_node(node))) co_return true;  // another coroutine's READDIR brought it
  if (!sweep->worth_reading(ctx.credential->uid())) co_return false;
  co_await read_on(ctx, name->directory, *sweep);
  co_return attributes_.fresh(cached_node(node));
}

Task<bool> Sweeper::sweep_for_names(RequestContext ctx, NodeRef directory) {
  if (!sweeps() || options_.acdirmin == Duration::zero()) co_return false;  // no name would be valid
  const SweepRef sweep = table_.sweeps().find(*directory.get(), Clock::now(), options_.acregmin);
  // Do not wait for another READDIR in progress: it may take long and need not bring this name.
  if (!sweep || !sweep->mutex.try_lock()) co_return false;
  const AsyncMutex::Guard guard(&sweep->mutex);
  if (!sweep->worth_reading(ctx.credential->uid())) co_return false;
  co_await read_on(ctx, directory, *sweep);
  co_return true;
}

Task<std::optional<Entry>> Sweeper::waiting_entry(RequestContext ctx, NodeRef directory,
                                                  const std::string& name) {
  const std::optional<WaitingEntry> found = table_.sweeps().take(*directory.get(), name);
  if (!found) co_return std::nullopt;
  if (Clock::now() - found->belief.since > options_.brought_names) co_return std::nullopt;
  if (!co_await access_.check_search(ctx, directory)) co_return std::nullopt;  // LOOKUP will return the error
  if (!names_.believed(directory, found->belief)) co_return std::nullopt;
  const NodeRef node = table_.get(found->entry.handle(), found->entry.export_index);
  // The Node was dropped after the READDIR, and with it the record of our changes to the file.
  if (table_.dropped_since(found->entry.handle(), found->belief.order)) co_return std::nullopt;
  co_await attributes_.record_listed(node, found->entry, found->belief);
  if (!attributes_.fresh(cached_node(node))) co_return std::nullopt;
  const auto learnt = table_.names().learn(*directory.get(), name, node.get(), found->belief);
  if (learnt != NameCache::Learnt::kStored) co_return std::nullopt;
  note_asked(directory);
  co_return attributes_.cached_entry(node, names_.entry_ttl(directory, found->belief));
}

void Sweeper::expect(const Listing& listing) {
  for (const ListedEntry& entry : listing.entries) {
    if (entry.complete) table_.prefetch(entry.handle());
  }
}

}  // namespace nfsrdma::client
