// SPDX-License-Identifier: Apache-2.0
// Task<T>: a lazy coroutine with one awaiter.
//
// Owner: the holder of the Task object. Awaiting a Task starts it and returns its value. A Task runs on the
// loop that awaits it and never changes loops by itself. Its frame is destroyed with the Task object, which
// the awaiting expression keeps alive. Exceptions other than bad_alloc do not cross layers here: an exception
// that escapes a Task is rethrown to the awaiter, and at the root (Loop::spawn) it ends the process with its
// text.
//
// The stack does not grow, in any build: a Task that ends without suspending returns to its awaiter like a
// function; a Task that suspended resumes its awaiter. Symmetric transfer alone is not enough: without
// optimisation and under the sanitizers it is a nested call, and a loop over Tasks that are ready at once
// would use up the stack.
//
// Why not asio::awaitable: a call here is one indirect jump, with no executor, no thread frame and no
// exception_ptr on the value path (docs/adr/0002-own-task-type.md).
#pragma once

#include <array>
#include <coroutine>
#include <cstddef>
#include <exception>
#include <new>
#include <optional>
#include <utility>

namespace nfsrdma {

template <class T = void>
class [[nodiscard]] Task;

namespace detail {

struct TaskPromiseBase;

// A Task that is being started, up to its first suspension or its end. It lives on the stack of the awaiter
// that starts it. `innermost` is the newest one on the current thread's stack.
struct TaskStart {
  TaskPromiseBase* promise;
  bool ended = false;
  static inline thread_local TaskStart* innermost = nullptr;
};

// clang keeps the address of a thread_local variable across a suspension, although another thread may resume
// the coroutine. Functions that are not inlined compute the address anew.
#ifdef __clang__
#define NFSRDMA_FRAME_CALL [[gnu::noinline]]
#else
#define NFSRDMA_FRAME_CALL
#endif

// Memory for coroutine frames, reused by the thread that destroyed them. Many frames are longer than the
// blocks that malloc caches for a thread, and one request needs a dozen frames.
class FrameStore {
 public:
  NFSRDMA_FRAME_CALL static void* take(size_t bytes) {
    if (bytes > kLongest) return ::operator new(bytes);
    Free& free = free_[(bytes - 1) / kStep];
    if (free.first == nullptr) [[unlikely]]
      return ::operator new((bytes + kStep - 1) / kStep * kStep);
    --free.count;
    return std::exchange(free.first, *static_cast<void**>(free.first));
  }
  NFSRDMA_FRAME_CALL static void give_back(void* frame, size_t bytes) {
    if (bytes > kLongest) return ::operator delete(frame);
    Free& free = free_[(bytes - 1) / kStep];
    if (!ends_with_thread_) [[unlikely]]
      end_with_thread();
    if (free.count == kMost) [[unlikely]]
      return ::operator delete(frame);
    ++free.count;
    *static_cast<void**>(frame) = std::exchange(free.first, frame);
  }

 private:
  static constexpr size_t kStep = 256;  // difference between two frame sizes, in bytes
#ifdef NFSRDMA_SANITIZED
  static constexpr size_t kLongest = 0;  // no reuse: the sanitizers must see each frame destroyed
#else
  static constexpr size_t kLongest = 4096;
#endif
  static constexpr unsigned kMost = 64;  // free frames kept of one size, per thread

  // Free frames of one size. Each begins with the address of the next.
  struct Free {
    void* first;
    unsigned count;
  };
  // The thread's end frees what is kept.
  static void end_with_thread();

  // These variables have no destructor, so that an access to them needs no call.
  static inline thread_local constinit std::array<Free, kLongest / kStep + 1> free_{};
  static inline thread_local constinit bool ends_with_thread_ = false;
};

#undef NFSRDMA_FRAME_CALL

// Base of the promises of coroutines whose frames come from the FrameStore.
struct InFrameStore {
  static void* operator new(size_t bytes) { return FrameStore::take(bytes); }
  static void operator delete(void* frame, size_t bytes) { FrameStore::give_back(frame, bytes); }
};

struct TaskPromiseBase : InFrameStore {
  std::coroutine_handle<> continuation = std::noop_coroutine();
  std::exception_ptr exception;

  struct FinalAwaiter {
    bool await_ready() const noexcept { return false; }
    template <class P>
    std::coroutine_handle<> await_suspend(std::coroutine_handle<P> h) const noexcept {
      TaskStart* start = TaskStart::innermost;
      if (start == nullptr || start->promise != &h.promise()) return h.promise().continuation;
      start->ended = true;
      return std::noop_coroutine();
    }
    void await_resume() const noexcept {}
  };
  std::suspend_always initial_suspend() const noexcept { return {}; }
  FinalAwaiter final_suspend() const noexcept { return {}; }
  void unhandled_exception() noexcept { exception = std::current_exception(); }
};

template <class T>
struct TaskPromise : TaskPromiseBase {
  std::optional<T> value;
  Task<T> get_return_object() noexcept;
  template <class U>
  void return_value(U&& v) {
    value.emplace(std::forward<U>(v));
  }
  T take() {
    if (exception) std::rethrow_exception(exception);
    return std::move(*value);
  }
};

template <>
struct TaskPromise<void> : TaskPromiseBase {
  Task<void> get_return_object() noexcept;
  void return_void() noexcept {}
  void take() {
    if (exception) std::rethrow_exception(exception);
  }
};

}  // namespace detail

template <class T>
class [[nodiscard]] Task {
 public:
  using promise_type = detail::TaskPromise<T>;
  using Handle = std::coroutine_handle<promise_type>;

  Task() = default;
  explicit Task(Handle h) noexcept : handle_(h) {}
  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, {})) {}
  Task& operator=(Task&& other) noexcept {
    if (this != &other) {
      destroy();
      handle_ = std::exchange(other.handle_, {});
    }
    return *this;
  }
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;
  ~Task() { destroy(); }

  auto operator co_await() && noexcept {
    struct Awaiter {
      Handle handle;
      bool await_ready() const noexcept { return false; }
      bool await_suspend(std::coroutine_handle<> continuation) const noexcept {
        handle.promise().continuation = continuation;
        detail::TaskStart start{&handle.promise()};
        detail::TaskStart* outer = std::exchange(detail::TaskStart::innermost, &start);
        handle.resume();
        // If the Task suspended, another thread may have resumed it and destroyed it and its awaiter by now:
        // touch only the stack.
        detail::TaskStart::innermost = outer;
        return !start.ended;
      }
      T await_resume() const { return handle.promise().take(); }
    };
    return Awaiter{handle_};
  }

 private:
  void destroy() {
    if (handle_) handle_.destroy();
  }
  Handle handle_;
};

namespace detail {
template <class T>
Task<T> TaskPromise<T>::get_return_object() noexcept {
  return Task<T>(std::coroutine_handle<TaskPromise<T>>::from_promise(*this));
}
inline Task<void> TaskPromise<void>::get_return_object() noexcept {
  return Task<void>(std::coroutine_handle<TaskPromise<void>>::from_promise(*this));
}
}  // namespace detail

}  // namespace nfsrdma
