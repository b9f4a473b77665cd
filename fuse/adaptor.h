// SPDX-License-Identifier: Apache-2.0
// Adaptor: what the FUSE operations of one mount share, and how an operation is started.
//
// The userdata of libfuse's session points to it. An operation is a C callback (operations*.cc) that copies
// its arguments, makes a FuseRequest and starts a coroutine on the loop that read the request:
//
//     void op_rmdir(fuse_req_t req, fuse_ino_t parent, const char* name) {
//       Adaptor::run(req, Operation::kRmdir, {parent, name}, [&](Adaptor& a, FuseRequest r) {
//         return rmdir(a, std::move(r), a.inodes.node(parent), name);
//       });
//     }
//
// Owner: FuseMount; outlives every coroutine. The members lock for themselves. Each LoopSide belongs to its
// loop.
#pragma once

#include <fuse_lowlevel.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "client/api/filesystem.h"
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
  // Answers about the root for programs that only look at mount points.
  RootQuestion<client::AttributesReply> root_attributes;
  RootQuestion<client::FilesystemStatus> root_room;
  RootQuestion<bool> root_access;
  RootQuestion<client::OpenDirectoryReply> root_opening;
  fuse_session* session = nullptr;        // owned by FuseMount
  client::FrontEnd* front_end = nullptr;  // FuseMount's Invalidator

  struct LoopSide {
    Loop* loop;
    std::shared_ptr<LoopRequests> requests;
    std::unique_ptr<DeviceReader> reader;
  };
  std::vector<LoopSide> sides;  // by Loop::index()
  LoopSide& here() { return sides[Loop::current()->index()]; }

  // What a request is about, for the tracer.
  struct About {
    fuse_ino_t inode;            // the object, or the directory of `name`
    const char* name = nullptr;  // null: the object itself
    uint64_t offset = 0;         // READ, WRITE: bytes
    uint64_t size = 0;           // READ, WRITE: bytes
    fuse_ino_t other_inode = 0;  // RENAME: the directory of `other_name`
    const char* other_name = nullptr;
  };
  // The trace record without the result of the request. `thread` is the caller's; reads /proc.
  std::unique_ptr<TracedOperation> describe(const About& about, pid_t thread) const;
  // A path from the mount's root to `name` in `node`, or to `node`, for people. Where names are not known it
  // begins with "inode N/...". Any thread.
  std::string path_of(client::NodeRef node, std::string name) const;
  // Starts `make(adaptor, request)`, a coroutine, on this loop. For libfuse's callbacks: no exception leaves
  // it.
  template <class Make>
  static void run(fuse_req_t req, Operation operation, const About& about, Make make) noexcept;

  // The context of a request that names files: the caller's credential and thread.
  client::RequestContext context(const FuseRequest& request);
  // As context(), for a request that changes names. If the request is answered early (loop_requests.h) before
  // the change was sent to the server, the change is not sent.
  client::RequestContext changing(FuseRequest& request);
  // Call it when such a change has ended. If the request was answered early, the kernel dropped its cache
  // entries at that time and may have looked them up again before the change was made. So the kernel is told
  // to drop them again.
  void changed(const FuseRequest& request, const client::NodeRef& directory, const std::string& name) const;
  void changed(const FuseRequest& request, const client::NodeRef& node) const;
  static client::RequestContext context(const rpc::CredentialPtr& opener) { return {opener, nullptr, 0}; }
  // The opener's credential, with the thread of this request's caller.
  static client::RequestContext context(const rpc::CredentialPtr& opener, const FuseRequest& request) {
    return {opener, nullptr, static_cast<uint32_t>(request.caller().tid)};
  }

  struct stat to_stat(const client::Attributes& a) const;
  // Answers with the result of a lookup, mkdir... and keeps the kernel's lookup count exact.
  void answer_entry(FuseRequest& request, const Result<client::Entry>& entry);
  fuse_entry_param entry_param(const client::Entry& entry);
  // How long the kernel may cache an answer, in seconds as libfuse wants them. With allow_root it is 0: the
  // kernel then admits every user, and libfuse checks the user of each request. An answer from the kernel's
  // cache would skip that check.
  double lifetime(Duration ttl) const {
    return options.allow_root ? 0 : std::chrono::duration<double>(ttl).count();
  }

  // A counter that grows with everything that arrives from the server (RootQuestion::Heard).
  uint64_t heard() const;
  // Whether the root's mode permits `mask`; nothing where the mode is not known. The server still decides
  // about whatever is done afterwards.
  std::optional<bool> root_access_by_mode(const rpc::Credential& who, int mask) const;

  static Task<> release_directory(client::Filesystem& filesystem, std::unique_ptr<DirectoryHandle> handle);

  // Closes the files and directories that the kernel left open when the connection ended. Call it on a loop
  // thread; it does not wait for the CLOSEs.
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
    // Out of memory before the coroutine began. The request's destructor has replied.
    report_exception(operation);
  }
}

}  // namespace nfsrdma::fuse
