// SPDX-License-Identifier: Apache-2.0
#include "fuse/piped_reply.h"

#include <linux/fuse.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace nfsrdma::fuse {
namespace {

// Collects the memory between two piped ranges: short pieces, such as a header and the bytes behind it, are
// written with one system call.
class Gathering {
 public:
  explicit Gathering(Pipe& to) : to_(to) {}

  // False when the pipe is full.
  bool add(ConstBytes bytes) {
    if (bytes.size() > short_.size() - filled_ && !write()) return false;
    if (bytes.size() > short_.size()) return write_all(bytes);
    if (!bytes.empty()) std::memcpy(short_.data() + filled_, bytes.data(), bytes.size());
    filled_ += bytes.size();
    return true;
  }
  bool write() { return write_all(ConstBytes(short_).first(std::exchange(filled_, 0))); }

 private:
  bool write_all(ConstBytes bytes) {
    while (!bytes.empty()) {
      const ssize_t n = to_.write(bytes);
      if (n <= 0) return false;
      bytes = bytes.subspan(static_cast<size_t>(n));
    }
    return true;
  }

  Pipe& to_;
  std::array<std::byte, 1024> short_;
  size_t filled_ = 0;
};

bool move_all(Pipe& to, Pipe& from, size_t bytes) {
  while (bytes > 0) {
    const ssize_t n = to.fill(from, bytes);
    if (n <= 0) return false;
    bytes -= static_cast<size_t>(n);
  }
  return true;
}

bool gather(Pipe& to, const iovec& header, std::vector<BulkData>& data) {
  Gathering memory(to);
  if (!memory.add({static_cast<const std::byte*>(header.iov_base), header.iov_len})) return false;
  for (BulkData& d : data) {
    const MutableBytes bytes = d.slice.bytes;
    if (!memory.add(bytes.first(d.piped.begin))) return false;
    if (!d.piped.empty() && (!memory.write() || !move_all(to, *d.pipe, d.piped.size()))) return false;
    if (!memory.add(bytes.subspan(d.piped.end))) return false;
  }
  return memory.write();
}

// Undoes what gather() did: all data is in memory again, `to` is empty.
bool take_back(Pipe& to, const iovec& header, std::vector<BulkData>& data) {
  if (to.size() < header.iov_len) return false;
  if (!read_all(to, {static_cast<std::byte*>(header.iov_base), header.iov_len})) return false;
  for (BulkData& d : data) {
    const size_t back = std::min(to.size(), d.size());
    if (!read_all(to, d.slice.bytes.first(back))) return false;
    if (back > d.piped.begin) d.piped.begin = std::min(back, d.piped.end);
    if (!d.land()) return false;
  }
  return true;
}

ssize_t answer_eio(int device, const iovec& header) {
  fuse_out_header out;
  std::memcpy(&out, header.iov_base, sizeof out);
  out.len = sizeof out;
  out.error = -EIO;
  return ::write(device, &out, sizeof out);
}

}  // namespace

bool PipedReply::suits(const std::vector<BulkData>& data) {
  size_t memory = 0;
  bool piped = false;
  for (const BulkData& d : data) {
    memory += d.size() - d.piped.size();
    piped = piped || !d.piped.empty();
  }
  return piped && memory <= kMaxMemoryBytes && data.size() <= kMaxPieces;
}

ssize_t PipedReply::send(int device, const iovec& header) {
  std::vector<BulkData>& data = *std::exchange(data_, nullptr);
  if (const PipeRef whole = pool_->get_reserved()) {
    if (gather(*whole, header, data)) {
      const ssize_t n = whole->drain(device, whole->size());
      // With ENOMEM the device took nothing. On success it has the data; on other errors the request is gone.
      if (n >= 0 || errno != ENOMEM) return n;
    } else {
      pool_->pause();  // more fragments than slots
    }
    if (!take_back(*whole, header, data)) return answer_eio(device, header);
  }
  std::array<iovec, kMaxPieces + 1> pieces{header};
  size_t count = 1;
  for (BulkData& d : data) {
    if (!d.land()) return answer_eio(device, header);
    pieces[count++] = {d.slice.bytes.data(), d.size()};
  }
  return ::writev(device, pieces.data(), static_cast<int>(count));
}

}  // namespace nfsrdma::fuse
