// SPDX-License-Identifier: Apache-2.0
// Adaptor: what the FUSE operations of one mount share, and how an operation is run.
//
// libfuse's session carries a pointer to it. An operation is a C callback (operations*.cc) that copies its
// arguments, makes a FuseRequest and starts a coroutine on the loop that read the request:
//
//     void op_rmdir(fuse_req_t req, fuse_ino_t parent, const char* name) {
//       Adaptor::run(req, Operation::kRmdir, {parent, name}, [&](Adaptor& a, FuseRequest r) {
//         return rmdir(a, std::move(r), a.inodes.node(parent), name);
//       });
//     }
//
// Owner: FuseMount; outlives every coroutine. The members lock for themselves; the per-loop parts belong to
// their loop.
#pragma once

#include <fuse_lowlevel.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "client/filesystem.h"
#include "fuse/caller_inspector.h"
#include "fuse/credentials.h"
#include "fuse/device_reader.h"
#include "fuse/errno_map.h"
#include "fuse/handle_table.h"
#include "fuse/handshake.h"
#include "fuse/inode_table.h"
#include "fuse/loop_requests.h"
#include "fuse/operation_tracer.h"
#include "fuse/options.h"
#include "fuse/repeated_opens.h"
#include "fuse/request.h"
#include "fuse/root_question.h"
#include "transport/memory/buffer.h"
#include "transport/runtime/loop.h"

namespace nfsrdma::fuse {

class Adaptor {
 public:
  Adaptor(FuseOptions options, client::Filesystem& filesystem, LoopPool& loops, BufferPool& pool);

  const FuseOptions options;
  client::Filesystem& filesystem;
  BufferPool& pool;
  InodeTable inodes;
  HandleTable<FileHandle> files;
  HandleTable<DirectoryHandle> directories;
  RepeatedOpens repeated_opens;
  const UserIds ids = UserIds::of_this_process();
  CredentialCache credentials;
  ErrnoMap errors;
  CallerInspector inspector;
  OperationTracer tracer;
  Handshake handshake;
  // About the root, for who looks at mount points.
  RootQuestion<client::AttributesReply> root_attributes;
  RootQuestion<client::FilesystemStatus> root_room;
  RootQuestion<bool> root_access;
  RootQuestion<client::OpenDirectoryReply> root_opening;
  fuse_session* session = nullptr;        // FuseMount's
  client::FrontEnd* front_end = nullptr;  // its Invalidator

  struct LoopSide {
    Loop* loop;
    std::shared_ptr<LoopRequests> requests;
    std::unique_ptr<DeviceReader> reader;
  };
  std::vector<LoopSide> sides;  // by Loop::index()
  LoopSide& here() { return sides[Loop::current()->index()]; }

  // What a request is about, for who watches.
  struct About {
    fuse_ino_t inode;            // the object, or the directory of `name`
    const char* name = nullptr;  // null: the object itself
    uint64_t offset = 0;         // READ, WRITE: bytes
    uint64_t size = 0;           // READ, WRITE: bytes
    fuse_ino_t other_inode = 0;  // RENAME: the directory of `other_name`
    const char* other_name = nullptr;
  };
  // Without the answer. `thread`: the caller's; /proc is asked.
  std::unique_ptr<TracedOperation> describe(const About& about, pid_t thread) const;
  // For people: a path from the mount's root that leads to `name` in `node`, or to `node`; as far as names
  // are known, else "inode N/...". Any thread.
  std::string path_of(client::NodeRef node, std::string name) const;
  // Starts `make(adaptor, request)`, a coroutine, on this loop. For libfuse's callbacks: nothing escapes.
  template <class Make>
  static void run(fuse_req_t req, Operation operation, const About& about, Make make) noexcept;

  // On whose behalf a request is made that names files, and one on an open file.
  client::RequestContext context(const FuseRequest& request);
  // The same of one that changes names or attributes: once it is answered early, it is not made any more.
  client::RequestContext changing(FuseRequest& request);
  // Such a change has ended. If its request had been answered before, the kernel has forgotten what it knew
  // then, and may have asked anew before the change was made: it is told to forget that.
  void changed(const FuseRequest& request, const client::NodeRef& directory, const std::string& name) const;
  void changed(const FuseRequest& request, const client::NodeRef& node) const;
  static client::RequestContext context(const rpc::CredentialPtr& opener) { return {opener, nullptr, 0}; }
  // Of the caller's thread under the opener's identity.
  static client::RequestContext context(const rpc::CredentialPtr& opener, const FuseRequest& request) {
    return {opener, nullptr, static_cast<uint32_t>(request.caller().tid)};
  }

  struct stat to_stat(const client::Attributes& a) const;
  // Answers with what a lookup, mkdir... found, and keeps the kernel's count exact.
  void answer_entry(FuseRequest& request, const Result<client::Entry>& entry);
  fuse_entry_param entry_param(const client::Entry& entry);
  // How long the kernel may believe an answer: seconds, as libfuse wants them. With allow_root the kernel
  // lets everybody in and libfuse looks at each request's user: what the kernel needs not ask for, all would
  // see.
  double lifetime(Duration ttl) const {
    return options.allow_root ? 0 : std::chrono::duration<double>(ttl).count();
  }

  // Grows with whatever comes from the server.
  uint64_t heard() const;
  // What the root's mode says; nothing where it is not known. The server is asked for whatever is done then.
  std::optional<bool> root_access_by_mode(const rpc::Credential& who, int mask) const;

  static Task<> release_directory(client::Filesystem& filesystem, std::unique_ptr<DirectoryHandle> handle);

  // The kernel is gone: closes what it left open. Loop thread; the work goes on by itself.
  void release_everything();

 private:
  static void report_exception(Operation operation) noexcept;
};

// The table of callbacks for fuse_session_new().
fuse_lowlevel_ops make_operations(bool readdirplus);

template <class Make>
void Adaptor::run(fuse_req_t req, Operation operation, const About& about, Make make) noexcept {
  auto& adaptor = *static_cast<Adaptor*>(fuse_req_userdata(req));
  LoopRequests& requests = *adaptor.here().requests;
  try {
    FuseRequest request(requests, req, operation);
    if (adaptor.tracer.on()) requests.trace(adaptor.describe(about, request.caller().tid));
    requests.launch(make(adaptor, std::move(request)));
  } catch (...) {
    // Out of memory before the coroutine began; the request's destructor has replied.
    report_exception(operation);
  }
}

}  // namespace nfsrdma::fuse
