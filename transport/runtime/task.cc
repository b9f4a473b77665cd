// SPDX-License-Identifier: Apache-2.0
#include "transport/runtime/task.h"

#include <array>
#include <new>

namespace nfsrdma::detail {
namespace {

constexpr size_t kStep = 256;  // difference between two frame sizes, in bytes
#ifdef NFSRDMA_SANITIZED
constexpr size_t kLongest = 0;  // no reuse: the sanitizers must see each frame destroyed
#else
constexpr size_t kLongest = 4096;
#endif
constexpr unsigned kMost = 64;  // free frames kept of one size, per thread

// Free frames of one size. Each begins with the address of the next.
class FreeFrames {
 public:
  FreeFrames() = default;
  FreeFrames(const FreeFrames&) = delete;
  FreeFrames& operator=(const FreeFrames&) = delete;
  ~FreeFrames() {
    while (void* frame = pop()) ::operator delete(frame);
  }
  void* pop() {
    if (first_ == nullptr) return nullptr;
    --count_;
    return std::exchange(first_, *static_cast<void**>(first_));
  }
  bool push(void* frame) {
    if (count_ == kMost) return false;
    ++count_;
    *static_cast<void**>(frame) = std::exchange(first_, frame);
    return true;
  }

 private:
  void* first_ = nullptr;
  unsigned count_ = 0;
};

FreeFrames& frames_of(size_t bytes) {
  static thread_local std::array<FreeFrames, kLongest / kStep + 1> frames;
  return frames[(bytes - 1) / kStep];
}

}  // namespace

void* take_frame(size_t bytes) {
  if (bytes > kLongest) return ::operator new(bytes);
  void* frame = frames_of(bytes).pop();
  return frame != nullptr ? frame : ::operator new((bytes + kStep - 1) / kStep * kStep);
}

void give_back_frame(void* frame, size_t bytes) {
  if (bytes > kLongest || !frames_of(bytes).push(frame)) ::operator delete(frame);
}

}  // namespace nfsrdma::detail
