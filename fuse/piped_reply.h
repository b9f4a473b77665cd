// SPDX-License-Identifier: Apache-2.0
// PipedReply: answers a read with data that waits in pipes.
//
// Header, memory and pipes are put together in one pipe, in order, and the device takes that with one
// splice(2): the only copy is the kernel's, from the pages the data arrived in to those of the reader. Where
// a pipe has too few slots for all fragments, everything is brought to memory and answered from there.
//
// libfuse makes the header and writes replies through Handshake::write_reply(), which asks the loop's
// PipedReply whether the data of the reply at hand is here.
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
  // More than this in memory is not copied into the pipe.
  static constexpr size_t kMaxMemoryBytes = 64u << 10;
  static constexpr size_t kMaxPieces = 16;

  // Whether this is the way to answer with `data`.
  static bool suits(const std::vector<BulkData>& data);

  // The next reply written on this loop carries `data`, all of it; `pool` lends the pipe.
  void expect(std::vector<BulkData>& data, PipePool& pool) {
    data_ = &data;
    pool_ = &pool;
  }
  void forget() { data_ = nullptr; }
  bool expected() const { return data_ != nullptr; }
  // As writev(2) of header and data. What cannot be sent is answered with EIO: a request without a reply
  // would hold its application for ever.
  ssize_t send(int device, const iovec& header);

 private:
  std::vector<BulkData>* data_ = nullptr;
  PipePool* pool_ = nullptr;
};

}  // namespace nfsrdma::fuse
