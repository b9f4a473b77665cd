// SPDX-License-Identifier: Apache-2.0
// Nfs3Protocol: Protocol in NFSv3: what the services of client/core ask the server, and what replies bring.
// The methods are in protocol_*.cc, by subject.
//
// Every reply brings attributes, and that of a change also some from before it (weak cache consistency, RFC
// 1813 section 2.6). They replace NFSv4's change_info4, but the server does not guarantee that they are
// atomic.
//
// Owned by the Nfs3Filesystem. Any loop.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client/core/attributes/exports.h"
#include "client/core/nodes/open_files.h"
#include "client/core/protocol.h"
#include "client/core/services.h"
#include "client/nfs3/node.h"
#include "client/nfs3/procedures.h"

namespace nfsrdma::client::nfs3 {

// The caller of a change, with the flag that says that nobody waits for it any more.
inline Procedures::Caller caller_of(const RequestContext& ctx) {
  return {ctx.credential, ctx.cancellation ? &ctx.cancellation->flag() : nullptr};
}

class Nfs3Protocol final : public Protocol {
 public:
  Nfs3Protocol(const Services& services, Nfs3NodeTable& nodes, Procedures& server,
               OpenFiles<Nfs3Node, Nfs3FileState>& files)
      : attributes_(services.attributes),
        access_(services.access),
        names_(services.names),
        write_back_(services.write_back),
        nodes_(nodes),
        server_(server),
        files_(files) {}

  FileLimits limits_of(const NodeRef&) const override { return limits_; }
  const FileLimits& limits() const { return limits_; }
  // Before the first request of an application.
  void set_limits(const FileLimits& limits) { limits_ = limits; }
  uint64_t epoch() const override { return epoch_.load(std::memory_order_acquire); }
  // A new connection: the server may have restarted before it.
  void begin_epoch() { epoch_.fetch_add(1, std::memory_order_acq_rel); }
  std::vector<NodeRef> files_in_use() const override { return files_.all(); }

  // --- protocol_attributes.cc ---
  // As stored in the attribute cache: with an st_ino that is unique in this mount.
  Attributes as_cached(const nfs3::FileAttributes& from);
  uint32_t export_of(const nfs3::FileAttributes& from);
  // Stores a reply's attributes in the cache. If it has none, they are fetched when they are next needed.
  Task<bool> note(NodeRef node, nfs3::PostAttributes from, uint64_t order, Cause cause,
                  std::optional<uint64_t> before = {});
  // Stores the attributes after our change of a file. If no other change lies between the cached attributes
  // and `wcc`, it was ours alone.
  Task<> note_own(NodeRef node, nfs3::Wcc wcc, uint64_t order);
  // The same for our change of a directory.
  Task<NameBelief> note_change(NodeRef directory, nfs3::Wcc wcc, uint64_t order);
  Error failed(const NodeRef& node, uint32_t status, const char* op);
  Task<Result<>> fetch_attributes(RequestContext ctx, NodeRef node, Cause cause) override;
  Task<Result<uint32_t>> ask_access(RequestContext ctx, NodeRef node, uint32_t wanted) override;
  // ACCESS; stores its attributes with `cause`. `good`: the result of record().
  Task<Result<uint32_t>> ask_access_for(RequestContext ctx, NodeRef node, Cause cause, bool* good);

  // --- protocol_names.cc ---
  Task<Result<Entry>> lookup_on_server(RequestContext ctx, NodeRef directory, std::string name) override;
  Task<Result<>> remove_on_server(RequestContext ctx, NodeRef directory, std::string name,
                                  bool is_directory) override;
  Task<Result<>> rename_on_server(RequestContext ctx, NodeRef from_directory, std::string from,
                                  NodeRef to_directory, std::string to) override;
  Task<Result<Entry>> link_on_server(RequestContext ctx, NodeRef node, NodeRef directory,
                                     std::string name) override;
  // The Node of a reply's file handle; its attributes are stored, or fetched.
  Task<Result<NodeRef>> object(RequestContext ctx, const nfs3::ObjectAnswer& answer, uint64_t order,
                               Cause cause);

  // --- protocol_io.cc ---
  Result<> usable(const CachedOpen&, const IoAccount&) const override { return {}; }
  Task<Result<ReadPiece>> read_piece(OpenFileRef file, const IoAccount& account, uint64_t offset,
                                     Slice destination, ReadFor purpose) override;
  Task<Result<Written>> write_on_server(NodeRef node, CachedFileRef file, IoAccount account, uint64_t offset,
                                        Slice data, nfs4::stable_how4 stable) override;
  Task<Result<nfs4::verifier4>> commit_on_server(NodeRef node, rpc::CredentialPtr credential, uint64_t offset,
                                                 uint64_t end) override;
  Task<Result<>> read_entries(RequestContext ctx, Listing& listing, uint64_t cookie, bool plus) override;

 private:
  // The directory's change attribute under which its names are known; 0: none.
  static uint64_t names_change(const NodeRef& directory);
  // The epoch for names in a reply with the directory's attributes. 0 if these differ from the ones before.
  static uint64_t epoch_of(const NodeRef& directory, uint64_t before, const nfs3::PostAttributes& after);

  AttributeService& attributes_;
  AccessService& access_;
  NameService& names_;
  WriteBack& write_back_;
  Nfs3NodeTable& nodes_;
  Procedures& server_;
  OpenFiles<Nfs3Node, Nfs3FileState>& files_;
  Exports exports_;
  FileLimits limits_;               // fixed after mount()
  std::atomic<uint64_t> epoch_{1};  // counts connections
};

}  // namespace nfsrdma::client::nfs3
