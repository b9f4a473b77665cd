// SPDX-License-Identifier: Apache-2.0
// LibfuseSession: a session of libfuse without a mount. The test takes the kernel's place: it sends requests
// and reads the replies, so it can send more requests than a real kernel would.
//
// Each request waits in a coroutine until answer() or an early answer. Construct and destroy it on the test's
// thread while the loop runs; requests are handled on the loop.
#pragma once

#include <fuse_lowlevel.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "fuse/loop_requests.h"
#include "fuse/request.h"
#include "transport/runtime/sync.h"

namespace nfsrdma::fuse::test {

class LibfuseSession {
 public:
  LibfuseSession(Loop& loop, LoopRequests& requests);
  ~LibfuseSession();  // every request must have been answered
  LibfuseSession(const LibfuseSession&) = delete;
  LibfuseSession& operator=(const LibfuseSession&) = delete;

  // Send requests and return their numbers, once the loop has taken them.
  uint64_t read(pid_t caller);
  uint64_t getattrs(pid_t caller, size_t count);  // the number of the first one
  void interrupt(uint64_t request);
  // Resumes the coroutine of `request`, which answers.
  void answer(uint64_t request);
  void answer_all();

  bool answered(uint64_t request) const;
  int error_of(uint64_t request) const;  // of a request that was answered
  size_t answers() const;

 private:
  using Gate = std::shared_ptr<Completion<bool>>;

  template <class Argument>
  void send(uint32_t opcode, uint64_t unique, pid_t caller, const Argument& argument);
  void on_loop(const std::function<void()>& what);
  static void wait_in(fuse_req_t req, Operation operation);
  static void op_read(fuse_req_t req, fuse_ino_t, size_t, off_t, fuse_file_info*);
  static void op_getattr(fuse_req_t req, fuse_ino_t, fuse_file_info*);
  static ssize_t take_reply(int fd, iovec* pieces, int count, void* userdata);
  static ssize_t nothing_to_read(int, void*, size_t, void*) { return 0; }

  Loop& loop_;
  LoopRequests& requests_;
  fuse_session* session_ = nullptr;
  uint64_t next_ = 2;
  // used on the loop only
  uint64_t sending_ = 0;
  std::map<uint64_t, Gate> gates_;
  mutable std::mutex mutex_;
  std::map<uint64_t, int> answers_;
};

}  // namespace nfsrdma::fuse::test
