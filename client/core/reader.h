// SPDX-License-Identifier: Apache-2.0
// Reader: read(2), from the data cache and by READs. One per mount; any loop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "client/core/attribute_service.h"
#include "client/core/kept_data.h"
#include "client/core/mount_parts.h"
#include "client/core/read_ahead_service.h"
#include "client/core/write_back.h"
#include "transport/runtime/mutex.h"

namespace nfsrdma::client {

class Reader {
 public:
  Reader(const MountParts& parts, KeptData& kept, AttributeService& attributes, WriteBack& write_back,
         ReadAheadService& ahead)
      : loops_(parts.loops),
        buffers_(parts.buffers),
        options_(parts.options),
        table_(parts.table),
        protocol_(parts.protocol),
        kept_(kept),
        attributes_(attributes),
        write_back_(write_back),
        ahead_(ahead) {}
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  Task<Result<ReadReply>> read(RequestContext ctx, OpenFileRef file, uint64_t offset, size_t size);

 private:
  struct ReadPart {
    ReadPart(uint64_t o, size_t s) : offset(o), size(s) {}
    const uint64_t offset;
    const size_t size;
    Completion<Result<ReadReply>> done;
  };

  // Sends a READ of `size` bytes, at most rsize. After a short READ it sends another, until all bytes are
  // there or the file ends. `account`, here and below, outlives the call.
  Task<Result<ReadReply>> read_one_by_one(OpenFileRef file, const IoAccount& account, uint64_t offset,
                                          size_t size);
  Task<> read_part(OpenFileRef file, const IoAccount& account, ReadPart* part);
  Task<> read_kept_part(OpenFileRef file, const IoAccount& account, ReadPart* part, TimePoint oldest);
  // The state of the file when a READ may be sent.
  struct Beginning {
    uint64_t unanswered_end = 0;  // one past the last byte of the file that a WRITE under way covers, or 0
    TimePoint oldest;             // oldest_believed()
  };
  // Nothing: the server of `epoch` may not have our writes of [offset, end) (FileWrites::readable()).
  std::optional<Beginning> begin(CachedFile& file, uint64_t offset, uint64_t end, uint64_t epoch);
  // Cached data that was last confirmed before this time is not used. This time is `oldest` below.
  TimePoint oldest_believed(const CachedNode& n) const NFSRDMA_REQUIRES(n.mutex);
  TimePoint oldest_believed_now(const CachedNode& n) const;
  // Reads from the data cache, waits for READs in progress, and gets the rest by read_range().
  Task<Result<ReadReply>> read_kept(OpenFileRef file, const IoAccount& account, uint64_t offset, size_t size,
                                    TimePoint oldest);
  // read_kept(), followed by read_ahead().
  Task<Result<ReadReply>> read_and_ahead(OpenFileRef file, const IoAccount& account, uint64_t offset,
                                         size_t size, TimePoint oldest);
  // read_and_ahead() if read-ahead is worthwhile, else read_kept().
  Task<Result<ReadReply>> read_cached(OpenFileRef file, const IoAccount& account, uint64_t offset,
                                      size_t size, TimePoint oldest);
  // Reads from the server, by one READ after the other or in parts at the same time.
  Task<Result<ReadReply>> read_range(OpenFileRef file, const IoAccount& account, uint64_t offset,
                                     size_t size);
  Task<Result<ReadReply>> read_in_parts(OpenFileRef file, const IoAccount& account, uint64_t offset,
                                        size_t size, size_t part_size);

  LoopPool& loops_;
  BufferPool& buffers_;
  const ClientOptions& options_;
  CachedNodeTable& table_;
  Protocol& protocol_;
  KeptData& kept_;
  AttributeService& attributes_;
  WriteBack& write_back_;
  ReadAheadService& ahead_;
};

}  // namespace nfsrdma::client
