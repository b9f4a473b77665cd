// SPDX-License-Identifier: Apache-2.0
// Protocol: what the client asks a server, for every version of NFS. client/nfs4 and client/nfs3 implement
// it. One per mount; any loop. The answers' attributes go into the Nodes by AttributeService.
#pragma once

#include <climits>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client/api/filesystem.h"
#include "client/core/attributes/attribute_decision.h"
#include "client/core/nodes/cached_file.h"
#include "client/core/nodes/cached_node.h"
#include "xdr/nfs4/file_ops.h"

namespace nfsrdma::client {

struct Listing;  // an open directory (names/listing.h)

// The limits of the server's file system that contains the file.
struct FileLimits {
  uint32_t rsize = 65536, wsize = 65536;  // bytes per READ, per WRITE
  uint32_t name_max = 255;                // bytes
  uint64_t file_max = INT64_MAX;          // bytes per file
};

struct ReadPiece {
  BulkData data;
  bool eof = false;
  std::optional<uint64_t> change;  // with kKeeping: the change attribute after the READ
};
enum class ReadFor : uint8_t {
  kAnswering,  // the reply to the kernel: the data may stay in a pipe
  kKeeping,    // the data cache: all data goes to the destination
};

// A server that restarts between the pieces of one write changes the write verifier, and the write starts
// again. With so many verifiers it fails.
inline constexpr int kMostVerifiers = 16;
// The count of that COMMIT. If 32 bits cannot hold it: 0, "to the end of the file" (RFC 8881
// section 18.3.3).
inline uint32_t commit_count(uint64_t offset, uint64_t end) {
  return end - offset > UINT32_MAX ? 0 : static_cast<uint32_t>(end - offset);
}

class Protocol {
 public:
  virtual ~Protocol() = default;

  virtual FileLimits limits_of(const NodeRef& node) const = 0;
  // True: the server is still bound by its promises (AttributeCache::promise()), because our lease holds.
  virtual bool promises_hold() const { return true; }
  // Changes whenever the server may have lost data that was written as UNSTABLE4. Never 0.
  virtual uint64_t epoch() const = 0;
  // Every file that is open or has unwritten data.
  virtual std::vector<NodeRef> files_in_use() const = 0;
  virtual Task<Result<>> fetch_attributes(RequestContext ctx, NodeRef node, Cause cause) = 0;
  // ACCESS and GETATTR. Returns the allowed bits of `wanted` (ACCESS4_*).
  virtual Task<Result<uint32_t>> ask_access(RequestContext ctx, NodeRef node, uint32_t wanted) = 0;
  // Requests the directory's ACL, and calls note_everybody() if the server returns it.
  virtual Task<> ask_who_searches(RequestContext, NodeRef) { co_return; }
  virtual Task<Result<Entry>> lookup_on_server(RequestContext ctx, NodeRef directory, std::string name) = 0;
  virtual Task<Result<>> remove_on_server(RequestContext ctx, NodeRef directory, std::string name,
                                          bool is_directory) = 0;
  virtual Task<Result<>> rename_on_server(RequestContext ctx, NodeRef from_directory, std::string from,
                                          NodeRef to_directory, std::string to) = 0;
  // A second name `name` of `node` in `directory`.
  virtual Task<Result<Entry>> link_on_server(RequestContext ctx, NodeRef node, NodeRef directory,
                                             std::string name) = 0;
  // Success: `account` may read and write through the descriptor. Else the error for its I/O.
  virtual Result<> usable(const CachedOpen& open, const IoAccount& account) const = 0;
  // One READ of destination.size() bytes. `account` outlives it.
  virtual Task<Result<ReadPiece>> read_piece(OpenFileRef file, const IoAccount& account, uint64_t offset,
                                             Slice destination, ReadFor purpose) = 0;
  // True: the change attributes come from the server, and equal values mean the same version of a file
  // (ReadFor::kKeeping).
  virtual bool has_change_attributes() const { return false; }
  // How much memory RDMA devices can register for data from the server. Bytes.
  virtual uint64_t registrable_bytes() const { return UINT64_MAX; }
  // True: besides `under_way` READs for read-ahead, one more does not delay other requests.
  virtual bool may_read_ahead(unsigned) const { return false; }
  // The maximum number of READs for read-ahead on the connection of that loop.
  virtual unsigned most_ahead_on(unsigned) const { return UINT_MAX; }
  // WRITEs all of `data`.
  virtual Task<Result<Written>> write_on_server(NodeRef node, CachedFileRef file, IoAccount account,
                                                uint64_t offset, Slice data, nfs4::stable_how4 stable) = 0;
  // COMMIT of [offset, end), which is not empty.
  virtual Task<Result<nfs4::verifier4>> commit_on_server(NodeRef node, rpc::CredentialPtr credential,
                                                         uint64_t offset, uint64_t end) = 0;
  // As ask_access(), for a directory that will be listed. NFSv4 adds a READDIR from the beginning to the
  // COMPOUND; Listing::filled says whether it succeeded.
  virtual Task<Result<uint32_t>> ask_access_and_list(RequestContext ctx, Listing& listing, uint32_t wanted,
                                                     bool plus);
  // One READDIR from `cookie` into the listing. Records the directory's attributes.
  virtual Task<Result<>> read_entries(RequestContext ctx, Listing& listing, uint64_t cookie, bool plus) = 0;
};

}  // namespace nfsrdma::client
