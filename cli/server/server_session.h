// SPDX-License-Identifier: Apache-2.0
// A client with a session like that of a mount, on one loop of its own and without the kernel, for `probe`
// and `doctor`.
//
// An attempt cannot be cancelled, and the destructor waits for outstanding calls. If a call returned nothing
// (no answer), the process must either wait in the destructor or exit without destroying the object.
// Blocking; one thread.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include "client/api/filesystem.h"
#include "client/api/no_front_end.h"
#include "client/api/options.h"
#include "transport/memory/buffer.h"
#include "transport/runtime/loop.h"

namespace nfsrdma::cli {

class ServerSession {
 public:
  struct Listing {
    std::vector<client::DirectoryEntry> entries;
    bool more = false;  // the directory has more entries than were read
  };

  explicit ServerSession(const client::ClientOptions& options);
  ~ServerSession();
  ServerSession(const ServerSession&) = delete;
  ServerSession& operator=(const ServerSession&) = delete;

  // Mounts the root of options.export_path. Returns nothing if there is no answer within the limit.
  std::optional<Result<client::Entry>> mount(std::chrono::milliseconds limit);
  // The first `most` entries of the directory, as far as the user of this process may see them.
  std::optional<Result<Listing>> list(const client::NodeRef& directory, size_t most,
                                      std::chrono::milliseconds limit);

  client::Statistics statistics() const { return filesystem_->statistics(); }

 private:
  LoopPool loops_{1};
  BufferPool pool_;
  client::NoFrontEnd front_end_;
  std::unique_ptr<client::Filesystem> filesystem_;
};

}  // namespace nfsrdma::cli
