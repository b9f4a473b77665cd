// SPDX-License-Identifier: Apache-2.0
// PipedReply: answers a READ with data that is in pipes.
//
// The header, the data in memory and the data in pipes are moved into one pipe, in order, and one splice(2)
// passes that pipe to the device. The only copy is the kernel's, from the pages in which the data arrived to
// the reader's pages. If a pipe has too few slots for all fragments, all data is brought to memory and sent
// from there.
//
// libfuse makes the header. It writes replies through Handshake::write_reply(), which asks the loop's
// PipedReply whether the reply's data is here.
//
// Owner: LoopRequests, one per loop; that loop's thread only.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <vector>

#include "transport/memory/bulk_data.h"

namespace nfsrdma::fuse {

class PipedReply {
 public:
  // Replies with more bytes than this in memory are not sent through a pipe.
  static constexpr size_t kMaxMemoryBytes = 64u << 10;
  static constexpr size_t kMaxPieces = 16;

  // Whether a reply with `data` should go through a pipe.
  static bool suits(const std::vector<BulkData>& data);

  // The next reply written on this loop carries all of `data`. `pool` provides the pipe.
  void expect(std::vector<BulkData>& data, PipePool& pool) {
    data_ = &data;
    pool_ = &pool;
  }
  void forget() { data_ = nullptr; }
  bool expected() const { return data_ != nullptr; }
  // Writes header and data to `device`, with the results of writev(2). If the data cannot be sent, writes EIO
  // instead, because a request without a reply would block its application for ever.
  ssize_t send(int device, const iovec& header);

 private:
  std::vector<BulkData>* data_ = nullptr;
  PipePool* pool_ = nullptr;
};

}  // namespace nfsrdma::fuse
