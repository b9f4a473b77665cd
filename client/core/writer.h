// SPDX-License-Identifier: Apache-2.0
// Writer: write(2), also with O_APPEND, O_SYNC and O_DIRECT. One per mount; any loop.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "client/core/kept_data.h"
#include "client/core/mount_parts.h"
#include "client/core/write_back.h"
#include "client/core/write_place.h"
#include "client/core/write_room.h"
#include "transport/runtime/mutex.h"

namespace nfsrdma::client {

class Writer {
 public:
  Writer(const MountParts& parts, AttributeService& attributes, KeptData& kept, WriteRoom& room,
         WriteBack& write_back)
      : loops_(parts.loops),
        protocol_(parts.protocol),
        attributes_(attributes),
        kept_(kept),
        room_(room),
        write_back_(write_back) {}
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  Task<Result<>> write(RequestContext ctx, OpenFileRef file, uint64_t offset, Slice data);

 private:
  struct WritePart {
    WritePart(uint64_t o, Slice d) : offset(o), data(std::move(d)) {}
    const uint64_t offset;
    const Slice data;
    Completion<Result<Written>> done;
  };

  Task<Result<>> write_through(OpenFileRef open, IoAccount account, uint64_t offset, Slice data);
  Task<Result<>> write_at(RequestContext ctx, OpenFileRef open, uint64_t offset, Slice data);
  // With O_APPEND. `offset`: the end of the file as the front end knows it.
  Task<Result<>> write_at_end(RequestContext ctx, OpenFileRef open, uint64_t offset, Slice data);
  // The file's real end. EINTR if the server had to be asked and the caller was cancelled
  // meanwhile.
  Task<Result<uint64_t>> append_offset(RequestContext ctx, NodeRef node, CachedFileRef file,
                                       uint64_t expected);
  // The same for a part of an O_DIRECT write: the offset to write it to. The part stays in
  // CachedFile::direct_append, also if this fails.
  Task<Result<uint64_t>> direct_append_offset(RequestContext ctx, NodeRef node, CachedFileRef file,
                                              AppendPart part);
  Task<Result<uint64_t>> end_at_server(RequestContext ctx, NodeRef node, CachedFileRef file);
  // With the Node's mutex held; the analysis does not know that `file` is the locked Node's.
  uint64_t known_end(const CachedFile& file) const NFSRDMA_UNCHECKED_LOCKS;
  // The kernel wrote up to `end`, so it takes the file to be at least that long.
  static void note_kernel_end(CachedNode& n, uint64_t end) NFSRDMA_REQUIRES(n.mutex) {
    n.kernel.wrote_to(end);
  }
  static bool join(std::optional<Written>& all, const Written& one);
  Task<> write_part(NodeRef node, CachedFileRef file, const IoAccount& account, WritePart* part);
  // Several concurrent WRITEs, UNSTABLE4. Nothing: the server restarted between two of them.
  Task<Result<std::optional<Written>>> write_in_parts(NodeRef node, CachedFileRef file,
                                                      const IoAccount& account, uint64_t offset, Slice data);
  // Returns when the data is on stable storage: FILE_SYNC4, or COMMIT if the server answers with less.
  Task<Result<>> write_stably(NodeRef node, CachedFileRef file, IoAccount account, uint64_t offset,
                              Slice data);

  LoopPool& loops_;
  Protocol& protocol_;
  AttributeService& attributes_;
  KeptData& kept_;
  WriteRoom& room_;
  WriteBack& write_back_;
};

}  // namespace nfsrdma::client
