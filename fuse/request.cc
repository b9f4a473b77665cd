// SPDX-License-Identifier: Apache-2.0
#include "fuse/request.h"

#include <limits.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "transport/runtime/log.h"

namespace nfsrdma::fuse {

FuseRequest::~FuseRequest() {
  if (record_ == nullptr) return;
  if (!answered()) {
    counters().unanswered.add();
    log::error("fuse: {}: dropped without a reply; the application gets EIO", name_of(record_->operation));
    error(EIO);
  }
  record_->owner->end(record_);
}

template <class Reply>
bool FuseRequest::answer(int errnum, Reply reply) {
  fuse_req_t request = record_->owner->take(*record_, errnum);
  return request != nullptr && reply(request) == 0;
}

const std::shared_ptr<client::Cancellation>& FuseRequest::make_cancellable(bool waits) {
  if (!record_->cancellation) record_->cancellation = std::make_shared<client::Cancellation>();
  record_->waits_for_a_lock = waits;
  return record_->cancellation;
}

void FuseRequest::error(int errnum) {
  answer(errnum, [errnum](fuse_req_t r) { return fuse_reply_err(r, errnum); });
}

void FuseRequest::fail(const Error& e) {
  if (!answered()) error(record_->owner->errors().report(record_->operation, e));
}

void FuseRequest::none() {
  answer(0, [](fuse_req_t r) {
    fuse_reply_none(r);
    return 0;
  });
}

bool FuseRequest::entry(const fuse_entry_param& e) {
  // An entry without an inode is a negative entry that the kernel may cache.
  if (e.ino == 0 && record_->traced) record_->traced->errnum = ENOENT;
  return answer(0, [&e](fuse_req_t r) { return fuse_reply_entry(r, &e); });
}

bool FuseRequest::created(const fuse_entry_param& e, const fuse_file_info& f) {
  return answer(0, [&](fuse_req_t r) { return fuse_reply_create(r, &e, &f); });
}

bool FuseRequest::opened(const fuse_file_info& f) {
  return answer(0, [&f](fuse_req_t r) { return fuse_reply_open(r, &f); });
}

bool FuseRequest::bytes(std::span<const char> data) {
  return answer(0, [data](fuse_req_t r) { return fuse_reply_buf(r, data.data(), data.size()); });
}

void FuseRequest::attributes(const struct stat& st, double timeout) {
  answer(0, [&](fuse_req_t r) { return fuse_reply_attr(r, &st, timeout); });
}

void FuseRequest::link_target(const std::string& target) {
  answer(0, [&target](fuse_req_t r) { return fuse_reply_readlink(r, target.c_str()); });
}

void FuseRequest::written(size_t size) {
  answer(0, [size](fuse_req_t r) { return fuse_reply_write(r, size); });
}

void FuseRequest::lock(const struct flock& lock) {
  answer(0, [&lock](fuse_req_t r) { return fuse_reply_lock(r, &lock); });
}

void FuseRequest::statfs(const struct statvfs& st) {
  answer(0, [&st](fuse_req_t r) { return fuse_reply_statfs(r, &st); });
}

void FuseRequest::data(std::vector<BulkData> data, size_t size, BufferPool& pool) {
  size_t whole = 0;
  for (const BulkData& d : data) whole += d.size();
  if (whole == size && PipedReply::suits(data)) {
    PipedReply& piped = record_->owner->piped_reply();
    answer(0, [&](fuse_req_t r) {
      piped.expect(data, pool.pipes());
      const iovec length{nullptr, size};  // libfuse takes the reply's length from it
      const int result = fuse_reply_iov(r, &length, 1);
      piped.forget();
      return result;
    });
    return;
  }
  for (BulkData& d : data) {
    if (!d.land()) return error(EIO);
  }
  landed(data, size, pool);
}

void FuseRequest::landed(const std::vector<BulkData>& data, size_t size, BufferPool& pool) {
  // One iovec holds the reply's header.
  constexpr size_t kMaxPieces = IOV_MAX - 1;
  constexpr size_t kUsualPieces = 16;

  if (data.size() <= 1) {
    const char* at = data.empty() ? nullptr : reinterpret_cast<const char*>(data[0].slice.bytes.data());
    const size_t n = data.empty() ? 0 : std::min(size, data[0].size());
    answer(0, [&](fuse_req_t r) { return fuse_reply_buf(r, at, n); });
    return;
  }
  std::array<iovec, kUsualPieces> few;
  std::vector<iovec> many;
  iovec* pieces = few.data();
  Slice gathered;
  size_t count = 0;
  if (data.size() > kMaxPieces) {
    gathered = pool.slice(size);
    if (!gathered.buffer) return error(ENOMEM);
    size_t at = 0;
    for (const BulkData& d : data) {
      const size_t n = std::min(d.size(), size - at);
      std::memcpy(gathered.bytes.data() + at, d.slice.bytes.data(), n);
      at += n;
    }
    pieces[count++] = {gathered.bytes.data(), at};
  } else {
    if (data.size() > kUsualPieces) {
      many.resize(data.size());
      pieces = many.data();
    }
    size_t left = size;
    for (const BulkData& d : data) {
      const size_t n = std::min(d.size(), left);
      left -= n;
      if (n != 0) pieces[count++] = {d.slice.bytes.data(), n};
    }
  }
  answer(0, [&](fuse_req_t r) { return fuse_reply_iov(r, pieces, static_cast<int>(count)); });
}

}  // namespace nfsrdma::fuse
