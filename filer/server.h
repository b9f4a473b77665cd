// SPDX-License-Identifier: Apache-2.0
// Server: the embedded NFSv4.1 server. It listens on TCP and, if asked, for RPC-over-RDMA.
//
// A test or a command owns it. It runs on a loop in a thread of its own, or on a loop that it is given. Every
// function may be called from any thread, and from a given loop too; the destructor must not run on the
// server's loop. Only the wait_* functions wait for a client.
//
//     auto server = filer::Server::start({});                       // 127.0.0.1, some port, exports /export
//     (*server)->make_file("/export/a", "hello");
//     (*server)->faults().add(on::reply_to(OP_RENAME), fault::Cut{});
//     ... mount 127.0.0.1:(*server)->port() ...
//     EXPECT_EQ((*server)->executed(OP_RENAME).succeeded, 1);
//
// A restart keeps the files and what stable storage knows of clients. Client IDs, sessions, state,
// connections and unstable data are lost, and a grace period begins (RFC 8881 section 8.4.2).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "filer/fault_plan.h"
#include "filer/nfs/core.h"
#include "filer/nfs/journal.h"
#include "filer/nfs/options.h"
#include "transport/runtime/loop.h"

namespace nfsrdma::filer {

// A file or directory, as the server sees it.
struct FileFacts {
  tree::NodeId fileid = 0;
  nfs4::nfs_ftype4 type = nfs4::NF4REG;
  uint32_t mode = 0;
  uint32_t uid = 0;
  uint32_t gid = 0;
  uint32_t links = 0;
  uint64_t size = 0;
  uint64_t allocated_bytes = 0;
  nfs4::changeid4 change = 0;
  nfs4::nfstime4 modified;
  bool unstable = false;  // has data that a crash would lose
  nfs4::nfs_fh4 handle;
};

// A client as the server sees it.
struct ClientFacts {
  nfs4::clientid4 id = 0;
  std::string owner;
  bool reclaim_complete = false;
  bool lease_expired = false;
  std::vector<nfs4::sessionid4> sessions;
  bool back_channel = false;
  size_t opens = 0;
  size_t locks = 0;  // lock stateids
  size_t delegations = 0;
  size_t revoked = 0;  // revoked stateids that the client has not freed
};

struct StateFacts {
  state::StateKind kind = state::StateKind::kOpen;
  nfs4::stateid4 id;
  nfs4::clientid4 client = 0;
  tree::NodeId fileid = 0;
  std::string owner;
  uint32_t access = 0;
  uint32_t deny = 0;
  bool write = false;  // delegations: for writing
  state::Revoked revoked = state::Revoked::kNo;
};

class Server {
 public:
  // Errors: the system's error for listening, or for opening an exported directory. `loop` null: the server
  // starts its own thread.
  static Result<std::unique_ptr<Server>> start(nfs::Options options, Loop* loop = nullptr);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  uint16_t port() const;
  uint16_t rdma_port() const;  // 0: it does not listen for RDMA
  FaultPlan& faults();
  // Changes switches: server.configure([](Switches& s) { s.delegations = Delegations::kRead; }).
  void configure(const std::function<void(nfs::Switches&)>& change);
  // Calls `visit` under the server's lock, for access that no other function of Server gives. References into
  // Core must not be kept.
  void with_core(const std::function<void(nfs::Core&)>& visit);

  // --- restart and time
  struct RestartOptions {
    bool forget_reclaims = false;  // the stable storage is lost as well: no client may reclaim
  };
  void restart(RestartOptions options);
  void restart() { restart({}); }
  // A crash: connections end and none are accepted. come_up() restarts the server on the same port.
  void go_down();
  Result<> come_up(RestartOptions options);
  void end_grace();
  bool in_grace();
  void advance_clock(std::chrono::nanoseconds by);
  void drop_connections(bool abort = false);
  size_t connections();
  // The server stops or resumes reading from the existing connections. While it is paused, TCP data waits in
  // the sockets. RPC-over-RDMA messages are still received, and wait in the server's memory (RdmaLink).
  void pause_reading(bool pause);
  // Replies on connections accepted from now on are sent in fragments of this many bytes; 0: one fragment.
  void fragment_replies(size_t bytes);

  // --- clients and state
  std::vector<ClientFacts> clients();
  std::vector<StateFacts> states();
  void expire_lease(nfs4::clientid4 client);
  bool revoke(const nfs4::stateid4& id);  // an administrative revocation
  void forget_session(const nfs4::sessionid4& id);
  // For all sessions: `slots` is how many slots the server wants the client to use, so
  // sr_target_highest_slotid becomes `slots` - 1. It is limited to the session's slots. The server enforces a
  // lower target once the client has received it and sends an sa_highest_slotid that is not above it.
  void set_target_slots(uint32_t slots);
  // Recalls every delegation of a file; returns how many there were.
  size_t recall(std::string_view path);

  // --- callbacks, on `client`'s session; without `client` on the first session that has a back channel
  std::optional<nfs::CallbackId> call_back(nfs::Callback callback,
                                           std::optional<nfs4::clientid4> client = {});
  nfs::CallbackResult callback_result(nfs::CallbackId id);
  nfs::CallbackResult wait_callback(nfs::CallbackId id,
                                    std::chrono::milliseconds timeout = std::chrono::seconds(30));

  // --- what was executed
  nfs::Journal::Count executed(nfs4::nfs_opnum4 op);
  nfs::Journal::Count executed(nfs4::nfs_opnum4 op, std::string_view path);
  uint64_t replays();
  std::vector<nfs::ExecutedCompound> journal();
  void clear_journal();
  // Waits until `condition` is true. It is checked under the lock after each event. Returns false at the
  // timeout.
  bool wait_until(const std::function<bool(nfs::Core&)>& condition,
                  std::chrono::milliseconds timeout = std::chrono::seconds(30));

  // --- files, changed on the server without a client. Paths are absolute and include the export.
  bool make_directory(std::string_view path, uint32_t mode = 0755, uint32_t uid = 0, uint32_t gid = 0);
  bool make_file(std::string_view path, std::string_view content, uint32_t mode = 0644, uint32_t uid = 0,
                 uint32_t gid = 0);
  bool make_symlink(std::string_view path, std::string_view target);
  bool write_file(std::string_view path, uint64_t offset, std::string_view content);
  // Sets the ACL of an object in memory; empty: the mode alone decides. Clients can read it with
  // Switches::shows_acls.
  void set_acl(std::string_view path, std::vector<nfs4::nfsace4> acl);
  bool remove_file(std::string_view path);
  std::optional<std::string> read_file(std::string_view path);
  std::optional<FileFacts> stat(std::string_view path);
  std::vector<std::string> list(std::string_view path);
  // READDIR calls that continue in this directory get NFS4ERR_NOT_SAME.
  void invalidate_cookies(std::string_view path);
  void set_read_only(std::string_view export_path, bool read_only);
  void set_space(std::string_view export_path, uint64_t bytes_total);
  void set_limits(std::string_view export_path, uint64_t max_io, size_t max_name);
  void set_flavors(std::string_view export_path, const tree::Flavors& flavors);

 private:
  struct Impl;
  explicit Server(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

}  // namespace nfsrdma::filer
