// SPDX-License-Identifier: Apache-2.0
#include "transport/runtime/task.h"

namespace nfsrdma::detail {

void FrameStore::end_with_thread() {
  struct End {
    ~End() {
      for (Free& free : free_) {
        while (void* frame = free.first) {
          free.first = *static_cast<void**>(frame);
          ::operator delete(frame);
        }
        free.count = kMost;  // a frame that is destroyed later on this thread is freed at once
      }
    }
  };
  static thread_local End end;
  ends_with_thread_ = true;
  (void)end;
}

}  // namespace nfsrdma::detail
