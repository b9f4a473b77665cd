// SPDX-License-Identifier: Apache-2.0
#include "fuse/repeated_opens.h"

#include <sys/stat.h>

#include <cerrno>
#include <utility>

#include "transport/runtime/mutex.h"

namespace nfsrdma::fuse {

using namespace client;

RepeatedOpens::Expected* RepeatedOpens::find(pid_t thread, const rpc::Credential& user) {
  const auto found = expected_.find(thread);
  if (found == expected_.end() || Clock::now() - found->second.since > kPatience) return nullptr;
  return found->second.opening.credential->same_user(user) ? &found->second : nullptr;
}

void RepeatedOpens::expect(const Opening& opening, const NodeRef& node, const Result<OpenReply>& reply) {
  Expected expected;
  expected.opening = opening;
  if (reply) {
    expected.node = node;
    expected.reply = *reply;
  }
  put(std::move(expected));
}

void RepeatedOpens::put(Expected expected) {
  const pid_t thread = expected.opening.thread;
  Expected before;
  uint64_t number = 0;
  {
    MutexLock lock(mutex_);
    expected.since = Clock::now();
    expected.number = number = ++numbers_;
    before = std::exchange(expected_[thread], std::move(expected));
    count_ = expected_.size();
  }
  release(std::move(before));
  Loop::current()->spawn(give_up(thread, number));
}

std::optional<TimePoint> RepeatedOpens::take(const Opening& opening, const NodeRef& node,
                                             std::optional<OpenReply>& kept) {
  if (!any()) return std::nullopt;
  Expected taken;
  bool repeated = false;
  {
    MutexLock lock(mutex_);
    const Expected* same = find(opening.thread, *opening.credential);
    repeated = same != nullptr && same->opening.flags == opening.flags;
    // Every open of this thread ends its walk, whatever it opens.
    const auto at = expected_.find(opening.thread);
    if (at == expected_.end()) return std::nullopt;
    taken = std::move(at->second);
    expected_.erase(at);
    count_ = expected_.size();
  }
  const TimePoint since = taken.since;
  if (repeated && taken.reply.file && taken.node == node) {
    kept = std::move(taken.reply);
  } else {
    release(std::move(taken));
  }
  if (!repeated) return std::nullopt;
  return since;
}

Task<Result<Entry>> RepeatedOpens::lookup(RequestContext ctx, Caller caller, NodeRef directory,
                                          std::string name) {
  auto call = filesystem_.lookup(ctx, directory, name);
  Result<Entry> entry = co_await std::move(call);
  for (int turn = 0; turn < kMostTurns; ++turn) {
    if (!entry || !entry->node || !S_ISREG(entry->attributes.mode)) break;
    Opening opening{caller.tid, ctx.credential, 0};
    {
      MutexLock lock(mutex_);
      const Expected* expected = find(caller.tid, *ctx.credential);
      if (expected == nullptr || (expected->reply.file && expected->node == entry->node)) break;
      opening.flags = expected->opening.flags;
    }
    auto opens = filesystem_.open(ctx, entry->node, opening.flags);
    const Result<OpenReply> opened = co_await std::move(opens);
    if (opened) {
      expect(opening, entry->node, opened);
      // The attributes after the open: this is what the kernel would lack.
      auto asks = filesystem_.getattr(ctx, entry->node, opened->file);
      if (Result<AttributesReply> now = co_await std::move(asks)) {
        entry->attributes = now->attributes;
        entry->attributes_ttl = now->ttl;
      }
      break;
    }
    if (opened.error().errnum != ESTALE) break;  // the OPEN will return this error
    call = filesystem_.lookup(ctx, directory, name);
    entry = co_await std::move(call);
  }
  co_return entry;
}

void RepeatedOpens::release(Expected expected) {
  if (expected.reply.file) Loop::current()->spawn(release_later(std::move(expected)));
}

Task<> RepeatedOpens::release_later(Expected expected) {
  RequestContext ctx;
  ctx.credential = expected.opening.credential;
  auto call = filesystem_.release(std::move(ctx), expected.reply.file);
  co_await std::move(call);
}

Task<> RepeatedOpens::give_up(pid_t thread, uint64_t number) {
  co_await Loop::current()->sleep(kPatience);
  Expected late;
  {
    MutexLock lock(mutex_);
    const auto at = expected_.find(thread);
    if (at == expected_.end() || at->second.number != number) co_return;
    late = std::move(at->second);
    expected_.erase(at);
    count_ = expected_.size();
  }
  release(std::move(late));
}

void RepeatedOpens::release_all() {
  std::unordered_map<pid_t, Expected> all;
  {
    MutexLock lock(mutex_);
    all.swap(expected_);
    count_ = 0;
  }
  for (auto& [thread, expected] : all) release(std::move(expected));
}

}  // namespace nfsrdma::fuse
