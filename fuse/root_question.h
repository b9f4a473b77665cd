// SPDX-License-Identifier: Apache-2.0
// RootQuestion: one kind of question about the mount's root (attributes, room, access) that programs ask
// which only look at mount points: `ls` of the parent, df, a file manager's sidebar. None of them shall hang
// with the server.
//
// A question goes to the server as any other. Where the server has sent nothing at all for kPatience, the
// answer is what is known of before; where nothing is known it is waited for. A server that is slow with this
// one and answers others is waited for, too: what is old is shown of a silent server only. While it is silent
// one question of the kind is under way, and whoever asks meanwhile gets what is known at once.
//
// Owner: the Adaptor. Any loop; each coroutine stays on its own.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "transport/runtime/loop.h"
#include "transport/runtime/task.h"
#include "xdr/support/result.h"

namespace nfsrdma::fuse {

template <class Value>
class RootQuestion {
 public:
  static constexpr Duration kPatience = std::chrono::seconds(1);
  // Bytes and replies that have come from the server: whether it is silent.
  using Heard = std::function<uint64_t()>;
  using Recall = std::function<std::optional<Value>()>;
  // Takes an answer that came when its asker had gone on without.
  using Unwanted = std::function<void(const Value&)>;

  // The latest answer.
  std::optional<Value> known() const {
    std::lock_guard lock(state_->mutex);
    return state_->known;
  }

  // `recall`: what is known of before.
  Task<Result<Value>> ask(Task<Result<Value>> asking, Heard heard, Recall recall, Unwanted unwanted = {}) {
    const std::shared_ptr<State> state = state_;
    if (state->is_silent()) {
      if (std::optional<Value> old = recall()) co_return *std::move(old);
    }
    Loop& loop = *Loop::current();
    const auto asked = std::make_shared<Asked>(loop);
    loop.spawn(carry_out(std::move(asking), asked, state, std::move(unwanted)));
    // Nearly all are answered before anybody has to count.
    std::optional<uint64_t> before;
    while (!asked->result) {
      co_await asked->timer.wait_for(kPatience / 2);
      if (asked->result) break;
      const uint64_t now = heard();
      if (std::exchange(before, now) != now) continue;
      if (std::optional<Value> old = recall()) {
        state->set_silent(true);
        asked->gone_on = true;
        co_return *std::move(old);
      }
    }
    co_return *std::move(asked->result);
  }

 private:
  struct State {
    bool is_silent() {
      std::lock_guard lock(mutex);
      return silent;
    }
    void set_silent(bool is) {
      std::lock_guard lock(mutex);
      silent = is;
    }
    std::mutex mutex;
    std::optional<Value> known;
    bool silent = false;  // a question is under way, and nothing comes
  };

  struct Asked {
    explicit Asked(Loop& loop) : timer(loop) {}
    Timer timer;
    std::optional<Result<Value>> result;
    bool gone_on = false;  // without it
  };

  // Goes on when its asker has been answered otherwise, and may outlive the mount.
  static Task<> carry_out(Task<Result<Value>> asking, std::shared_ptr<Asked> asked,
                          std::shared_ptr<State> state, Unwanted unwanted) {
    Result<Value> result = co_await std::move(asking);
    {
      std::lock_guard lock(state->mutex);
      state->silent = false;
      // What has to be given back is not kept.
      if (result && !unwanted) state->known = *result;
    }
    if (asked->gone_on && result && unwanted) unwanted(*result);
    asked->result = std::move(result);
    asked->timer.cancel();
  }

  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace nfsrdma::fuse
