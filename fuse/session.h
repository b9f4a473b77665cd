// SPDX-License-Identifier: Apache-2.0
// FuseMount: one mounted file system, from mount(2) to the end of the FUSE connection. It is all that main
// needs of fuse/; it exposes no type of libfuse.
//
//     auto mount = FuseMount::create(options, filesystem, loops, pool);
//     ... Entry root = co_await filesystem.mount(mount->front_end()) on a loop ...
//     mount->on_unmounted([] { ... });
//     mount->start(root);                   // the kernel mounts; from here applications wait for us
//     ...
//     mount->unmount(false, report);        // or umount(8), fusermount3 -u, the kernel
//     ... on_unmounted: filesystem.unmount(patience), stop the loops, destroy FuseMount, then Filesystem
//
// States: created -> started -> ended. A mount has ended when every loop's reader saw the end of the
// connection (ENODEV) or detach() was called. Then waiting requests have been answered, files the kernel left
// open are being released, and the inode table is empty. The coroutines behind early answers may still run:
// in_flight() counts them. Destroy a FuseMount when in_flight() is 0 or its loops have stopped, and before
// its Filesystem.
//
// Any thread may call the methods unless a method says otherwise.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "client/api/filesystem.h"
#include "fuse/operation_tracer.h"
#include "fuse/options.h"
#include "fuse/statistics.h"
#include "transport/memory/buffer.h"
#include "transport/runtime/loop.h"
#include "xdr/support/result.h"

namespace nfsrdma::fuse {

class FuseMount {
 public:
  // Checks what can be checked without mounting: the mount point, the options, /dev/fuse.
  static Result<std::unique_ptr<FuseMount>> create(FuseOptions options, client::Filesystem& filesystem,
                                                   LoopPool& loops, BufferPool& pool);
  // Not from a loop, and not from inside on_unmounted. Detaches and lazily unmounts a mount that has not
  // ended.
  ~FuseMount();
  FuseMount(const FuseMount&) = delete;
  FuseMount& operator=(const FuseMount&) = delete;

  // For Filesystem::mount(). Notices before start() are ignored: the kernel knows nothing yet.
  client::FrontEnd* front_end();

  // `callback` is called once, on one of the loops. Set it before start().
  void on_unmounted(std::function<void()> callback);

  // Mounts, does the FUSE handshake and starts one reader on each loop. `root` is what Filesystem::mount()
  // returned. Blocks for a moment; not from a loop. The loops may be started before or afterwards.
  Result<> start(client::Entry root);

  // Asks the kernel to unmount, on a thread of its own: during umount2(2) the kernel flushes and closes files
  // through the loops. `done` is called on that thread, with success or EBUSY... Not lazy: fails with EBUSY
  // while files are open. Lazy: invisible at once, ended when the last file is closed.
  void unmount(bool lazy, std::function<void(Result<>)> done);

  // Ends without asking the kernel. Waiting requests get EIO, later ones ENOTCONN once this object is
  // destroyed.
  void detach();

  bool ended() const;
  size_t in_flight() const;
  FuseStatistics statistics() const;
  // Shows answered requests. It lives as long as this object.
  OperationTracer& tracer();
  // A path from the mount's root, for people (Adaptor::path_of).
  std::string path_of(client::NodeRef node, std::string name) const;

 private:
  class Impl;
  explicit FuseMount(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// The version of the libfuse that this process has loaded: "3.14.0".
std::string libfuse_version();

}  // namespace nfsrdma::fuse
