#include "fuse/piped_reply.h"

#include <algorithm>
#include <cerrno>
#include <utility>

namespace nfsrdma::fuse {
namespace {

// All of it, or false when the pipe is full.
bool write_all(Pipe& to, ConstBytes bytes) {
  while (!bytes.empty()) {
    const ssize_t n = to.write(bytes);
    if (n <= 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
  return true;
}

bool move_all(Pipe& to, Pipe& from, size_t bytes) {
  while (bytes > 0) {
    const ssize_t n = to.fill(from, bytes);
    if (n <= 0) return false;
    bytes -= static_cast<size_t>(n);
  }
  return true;
}

bool gather(Pipe& to, const iovec& header, std::vector<BulkData>& data) {
  if (!write_all(to, {static_cast<const std::byte*>(header.iov_base), header.iov_len})) return false;
  for (BulkData& d : data) {
    const MutableBytes bytes = d.slice.bytes;
    if (!write_all(to, bytes.first(d.piped.begin))) return false;
    if (!d.piped.empty() && !move_all(to, *d.pipe, d.piped.size())) return false;
    if (!write_all(to, bytes.subspan(d.piped.end))) return false;
  }
  return true;
}

// What gather() got done is undone: all data in memory, `to` empty.
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

}  // namespace

bool PipedReply::suits(const std::vector<BulkData>& data) {
  size_t memory = 0;
  bool piped = false;
  for (const BulkData& d : data) {
    memory += d.size() - d.piped.size();
    piped = piped || !d.piped.empty();
  }
  return piped && memory <= kMaxMemoryBytes;
}

ssize_t PipedReply::send(int device, const iovec& header) {
  std::vector<BulkData>& data = *std::exchange(data_, nullptr);
  if (const PipeRef whole = pool_->get()) {
    if (gather(*whole, header, data)) return whole->drain(device, whole->size());
    if (!take_back(*whole, header, data)) {
      errno = EIO;
      return -1;
    }
  }
  std::vector<iovec> pieces{header};
  for (BulkData& d : data) {
    if (!d.land()) {
      errno = EIO;
      return -1;
    }
    pieces.push_back({d.slice.bytes.data(), d.size()});
  }
  return ::writev(device, pieces.data(), static_cast<int>(pieces.size()));
}

}  // namespace nfsrdma::fuse
