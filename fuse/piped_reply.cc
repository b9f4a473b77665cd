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
      // Before it took anything; else the device has the data, or the request is gone.
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
