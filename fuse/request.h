// SPDX-License-Identifier: Apache-2.0
// FuseRequest: one request of the kernel, held by the coroutine that works on it. It is answered exactly
// once.
//
// Move-only; belongs to the loop that read it. Each reply method replies, unless the request was answered
// early (loop_requests.h) or the kernel no longer wants it. Those that hand something to the kernel return
// whether the kernel accepted it. If not, the caller must undo it: release the file, take back the lookup.
// The destructor of an unanswered FuseRequest replies EIO and counts a bug.
#pragma once

#include <fuse_lowlevel.h>

#include <span>
#include <string>
#include <vector>

#include "fuse/loop_requests.h"
#include "transport/memory/bulk_data.h"
#include "xdr/support/error.h"

namespace nfsrdma::fuse {

class FuseRequest {
 public:
  FuseRequest(LoopRequests& loop, fuse_req_t request, Operation operation)
      : record_(loop.begin(request, operation)) {}
  FuseRequest(FuseRequest&& o) noexcept : record_(std::exchange(o.record_, nullptr)) {}
  FuseRequest& operator=(FuseRequest&&) = delete;
  ~FuseRequest();

  const Caller& caller() const { return record_->caller; }
  bool answered() const { return record_->request == nullptr; }
  TimePoint started() const { return record_->started; }
  OperationCounters& counters() { return record_->owner->counters(); }
  void has_read(size_t bytes) { record_->owner->has_read(*record_, bytes); }
  void has_written(size_t bytes) { record_->owner->has_written(*record_, bytes); }

  // Its cancellation is triggered when the request is answered early and, if it `waits` for a lock, by any
  // signal.
  const std::shared_ptr<client::Cancellation>& make_cancellable(bool waits);

  void ok() { error(0); }
  void error(int errnum);
  // Replies with the errno of `e`, and logs it.
  void fail(const Error& e);
  void none();  // FORGET has no reply

  [[nodiscard]] bool entry(const fuse_entry_param& e);
  [[nodiscard]] bool created(const fuse_entry_param& e, const fuse_file_info& f);
  [[nodiscard]] bool opened(const fuse_file_info& f);
  [[nodiscard]] bool bytes(std::span<const char> data);
  void attributes(const struct stat& st, double timeout);
  void link_target(const std::string& target);
  void written(size_t size);
  void lock(const struct flock& lock);
  void statfs(const struct statvfs& st);
  // Replies with the first `size` bytes of `data`, without a copy unless there are more pieces than writev(2)
  // takes; then they are copied to a buffer of `pool`.
  void data(std::vector<BulkData> data, size_t size, BufferPool& pool);

 private:
  template <class Reply>
  bool answer(int errnum, Reply reply);
  void landed(const std::vector<BulkData>& data, size_t size, BufferPool& pool);

  RequestRecord* record_;
};

}  // namespace nfsrdma::fuse
