// SPDX-License-Identifier: Apache-2.0
#include "transport/runtime/deadline.h"

namespace nfsrdma {
namespace {

struct Deadline {
  explicit Deadline(Loop& loop) : timer(loop) {}
  Timer timer;
  bool done = false;
};

Task<> run_to_deadline(Task<> task, std::shared_ptr<Deadline> deadline) {
  co_await std::move(task);
  deadline->done = true;
  deadline->timer.cancel();
}

}  // namespace

Task<bool> finish_within(Loop& loop, Task<> task, Duration patience) {
  auto deadline = std::make_shared<Deadline>(loop);
  loop.spawn(run_to_deadline(std::move(task), deadline));
  if (!deadline->done) co_await deadline->timer.wait_for(patience);
  co_return deadline->done;
}

}  // namespace nfsrdma
