// SPDX-License-Identifier: Apache-2.0
// RootQuestion: one kind of question about the mount's root (attributes, free space, access). Programs that
// only look at mount points ask it: `ls` of the parent, df, a file manager's sidebar. They should not hang
// with the server.
//
// A question is sent to the server like any other. If the server has sent nothing at all for kPatience, the
// answer is the last known one; if none is known, the question waits. A server that is slow with this
// question but answers others is waited for, too: old answers are given only while the server is silent.
// While it is silent one question of the kind is in progress, and later ones get the known answer at once.
//
// Owner: Adaptor. Any loop; each coroutine stays on its own.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "transport/runtime/loop.h"
#include "transport/runtime/mutex.h"
#include "transport/runtime/task.h"
#include "xdr/support/result.h"

namespace nfsrdma::fuse {

template <class Value>
class RootQuestion {
 public:
  static constexpr Duration kPatience = std::chrono::seconds(1);
  // A counter of bytes and replies from the server; the server is silent while it does not change.
  using Heard = std::function<uint64_t()>;
  using Recall = std::function<std::optional<Value>()>;
  // Takes a reply that arrived after the old answer was given.
  using Unwanted = std::function<void(const Value&)>;

  // The latest answer.
  std::optional<Value> known() const {
    MutexLock lock(state_->mutex);
    return state_->known;
  }

  // `recall` returns the last known answer.
  Task<Result<Value>> ask(Task<Result<Value>> asking, Heard heard, Recall recall, Unwanted unwanted = {}) {
    const std::shared_ptr<State> state = state_;
    if (state->is_silent()) {
      if (std::optional<Value> old = recall()) co_return *std::move(old);
    }
    Loop& loop = *Loop::current();
    const auto asked = std::make_shared<Asked>(loop);
    loop.spawn(carry_out(std::move(asking), asked, state, std::move(unwanted)));
    // Read the counter only after the first half of kPatience: nearly all questions are answered by then.
    std::optional<uint64_t> before;
    while (!asked->result) {
      co_await asked->timer.wait_for(kPatience / 2);
      if (asked->result) break;
      const uint64_t now = heard();
      if (std::exchange(before, now) != now) continue;
      if (std::optional<Value> old = recall()) {
        state->set_silent(true);
        asked->continued = true;
        co_return *std::move(old);
      }
    }
    co_return *std::move(asked->result);
  }

 private:
  struct State {
    bool is_silent() {
      MutexLock lock(mutex);
      return silent;
    }
    void set_silent(bool is) {
      MutexLock lock(mutex);
      silent = is;
    }
    Mutex mutex;
    std::optional<Value> known NFSRDMA_GUARDED_BY(mutex);
    bool silent NFSRDMA_GUARDED_BY(mutex) = false;  // a question is in progress, and the server sends nothing
  };

  struct Asked {
    explicit Asked(Loop& loop) : timer(loop) {}
    Timer timer;
    std::optional<Result<Value>> result;
    bool continued = false;  // the question was answered with the old answer
  };

  // Continues after the question was answered with the old answer; may outlive the mount.
  static Task<> carry_out(Task<Result<Value>> asking, std::shared_ptr<Asked> asked,
                          std::shared_ptr<State> state, Unwanted unwanted) {
    Result<Value> result = co_await std::move(asking);
    {
      MutexLock lock(state->mutex);
      state->silent = false;
      // An answer that must be given back (a directory) is not kept.
      if (result && !unwanted) state->known = *result;
    }
    if (asked->continued && result && unwanted) unwanted(*result);
    asked->result = std::move(result);
    asked->timer.cancel();
  }

  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace nfsrdma::fuse
