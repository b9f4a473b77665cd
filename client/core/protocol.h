// SPDX-License-Identifier: Apache-2.0
// Protocol: what the client asks a server, for every version of NFS. client/nfs4 and client/nfs3 implement
// it. A method calls no service of client/core: it returns what the server answered (answers.h), and the
// service that called it records the answer. Errors are returned as the server sent them; the caller passes
// them to AttributeService::gone(), which handles ESTALE. One per mount; any loop.
#pragma once

#include <cerrno>
#include <climits>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client/api/filesystem.h"
#include "client/core/answers.h"
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

// Checks the count in the reply to a WRITE of `sent` bytes.
inline Result<> check_count(uint64_t count, size_t sent) {
  if (count != 0 && count <= sent) return {};
  return fail(system_error(EIO, "WRITE", "the server wrote an impossible number of bytes"));
}
// COMMIT's count. If 32 bits cannot hold it: 0, "to the end of the file" (RFC 8881
// section 18.3.3).
inline uint32_t commit_count(uint64_t offset, uint64_t end) {
  return end - offset > UINT32_MAX ? 0 : static_cast<uint32_t>(end - offset);
}

class Protocol {
 public:
  virtual ~Protocol() = default;

  virtual FileLimits limits_of(const NodeRef& node) const = 0;
  // True: our lease holds, so the server recalls a delegation before another client can change the file
  // (AttributeCache::promise()).
  virtual bool promises_hold() const { return true; }
  // Changes whenever the server may have lost data that was written as UNSTABLE4. Never 0.
  virtual uint64_t epoch() const = 0;
  // Every file that is open or has unwritten data.
  virtual std::vector<NodeRef> files_in_use() const = 0;
  virtual Task<Result<AnsweredAttributes>> get_attributes(RequestContext ctx, NodeRef node) = 0;
  // ACCESS of all bits, and GETATTR.
  virtual Task<Result<AccessOutcome>> get_access(RequestContext ctx, NodeRef node) = 0;
  // The directory's ACL. Nothing: the server does not return it.
  virtual Task<std::optional<AclOutcome>> get_acl(RequestContext, NodeRef) { co_return std::nullopt; }
  virtual Task<Result<LookupOutcome>> lookup(RequestContext ctx, NodeRef directory, std::string name) = 0;
  // `victim`: the object that has the name, as far as is known; else null.
  virtual Task<RemoveOutcome> remove(RequestContext ctx, NodeRef directory, std::string name,
                                     bool is_directory, NodeRef victim) = 0;
  // `victim`: the object that is replaced, as far as is known; else null.
  virtual Task<RenameOutcome> rename(RequestContext ctx, NodeRef from_directory, std::string from,
                                     NodeRef to_directory, std::string to, NodeRef victim) = 0;
  // A second name `name` of `node` in `directory`.
  virtual Task<LinkOutcome> link(RequestContext ctx, NodeRef node, NodeRef directory, std::string name) = 0;
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
  // True: while `under_way` READs for read-ahead are in progress, one more does not delay other requests.
  virtual bool may_read_ahead(unsigned) const { return false; }
  // The maximum number of READs for read-ahead on the connection of that loop.
  virtual unsigned most_ahead_on(unsigned) const { return UINT_MAX; }
  // One WRITE of `data`, which is no longer than wsize. `account` outlives it.
  virtual Task<Result<WriteOutcome>> write(NodeRef node, CachedFileRef file, const IoAccount& account,
                                           uint64_t offset, Slice data, nfs4::stable_how4 stable) = 0;
  // COMMIT of [offset, end), which is not empty.
  virtual Task<Result<CommitOutcome>> commit(NodeRef node, rpc::CredentialPtr credential, uint64_t offset,
                                             uint64_t end) = 0;
  // One READDIR from `cookie`. `plus`: with attributes and file handles. An error: the request failed before
  // READDIR.
  virtual Task<Result<ListOutcome>> list(RequestContext ctx, const Listing& listing, uint64_t cookie,
                                         bool plus) = 0;
  // True: list_with_access() is one request.
  virtual bool lists_with_access() const { return false; }
  // ACCESS and a READDIR from the beginning. `with_acl`: the directory's ACL, too.
  virtual Task<Result<ListOutcome>> list_with_access(RequestContext ctx, const Listing& listing, bool plus,
                                                     bool with_acl);
};

}  // namespace nfsrdma::client
