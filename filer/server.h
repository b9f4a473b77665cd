// SPDX-License-Identifier: Apache-2.0
// Server: the embedded NFSv4.1 filer (DESIGN.md section 7), listening on TCP and, if asked, for RPC over
// RDMA.
//
// Owner: a test or a command. It runs on a loop of its own thread, or on one it is given; every function may
// be called from any thread (with a given loop: also from that loop), except that the destructor must not run
// on the server's loop. Nothing here waits for a client but the wait_* functions.
//
//     auto server = filer::Server::start({});                       // 127.0.0.1, some port, exports /export
//     (*server)->make_file("/export/a", "hello");
//     (*server)->faults().add(on::reply_to(OP_RENAME), fault::Cut{});
//     ... mount 127.0.0.1:(*server)->port() ...
//     EXPECT_EQ((*server)->executed(OP_RENAME).succeeded, 1);
//
// A server that restarts keeps its files and what its stable storage remembers of clients; client IDs,
// sessions, states, connections and unstable data are gone, and a grace period begins (RFC 8881
// section 8.4.2).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "filer/fault_plan.h"
#include "filer/journal.h"
#include "filer/nfs/core.h"
#include "filer/options.h"
#include "transport/runtime/loop.h"

namespace nfsrdma::filer {

// A file or directory, for tests that look behind the client's back.
struct FileFacts {
  NodeId fileid = 0;
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
  size_t revoked = 0;  // states that are revoked and not freed
};

struct StateFacts {
  StateKind kind = StateKind::kOpen;
  nfs4::stateid4 id;
  nfs4::clientid4 client = 0;
  NodeId fileid = 0;
  std::string owner;
  uint32_t access = 0;
  uint32_t deny = 0;
  bool write = false;  // delegations
  Revoked revoked = Revoked::kNo;
};

class Server {
 public:
  // Errors: what the system says to listening. `loop` null: a thread of its own.
  static Result<std::unique_ptr<Server>> start(Options options, Loop* loop = nullptr);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  uint16_t port() const;
  uint16_t rdma_port() const;  // 0: it does not listen there
  FaultPlan& faults();
  // Changes switches: server.configure([](Switches& s) { s.delegations = Delegations::kRead; }).
  void configure(const std::function<void(Switches&)>& change);
  // Everything at once, under the lock, for what has no function here. Nothing may be kept.
  void with_core(const std::function<void(Core&)>& visit);

  // --- life and time
  struct RestartOptions {
    bool forget_reclaims = false;  // the stable storage is lost too: nobody may reclaim
  };
  void restart(RestartOptions options);
  void restart() { restart({}); }
  void
  go_down();  // a crash: connections end, nobody is accepted. come_up() is the restart, on the same port.
  Result<> come_up(RestartOptions options);
  void end_grace();
  bool in_grace();
  void advance_clock(std::chrono::nanoseconds by);
  void drop_connections(bool abort = false);
  size_t connections();
  // The server stops reading from the connections there are, until told otherwise: what clients send piles
  // up.
  void pause_reading(bool pause);
  // Connections accepted from now on send records in fragments of so many bytes; 0: whole.
  void fragment_replies(size_t bytes);

  // --- clients and state
  std::vector<ClientFacts> clients();
  std::vector<StateFacts> states();
  void expire_lease(nfs4::clientid4 client);
  bool revoke(const nfs4::stateid4& id);  // as an administrator would
  void forget_session(const nfs4::sessionid4& id);
  // sr_target_highest_slotid of all sessions; the enforced limit follows when the client does.
  void set_target_slots(uint32_t slots);
  // Recalls every delegation of a file; how many there were.
  size_t recall(std::string_view path);

  // --- callbacks. Of the first session that has a back channel, or of `client`'s.
  std::optional<CallbackId> call_back(Callback callback, std::optional<nfs4::clientid4> client = {});
  CallbackResult callback_result(CallbackId id);
  CallbackResult wait_callback(CallbackId id, std::chrono::milliseconds timeout = std::chrono::seconds(30));

  // --- what was executed
  Journal::Count executed(nfs4::nfs_opnum4 op);
  Journal::Count executed(nfs4::nfs_opnum4 op, std::string_view path);
  uint64_t replays();
  std::vector<ExecutedCompound> journal();
  void clear_journal();
  // False when `condition`, checked under the lock whenever something happened, did not come true in time.
  bool wait_until(const std::function<bool(Core&)>& condition,
                  std::chrono::milliseconds timeout = std::chrono::seconds(30));

  // --- files, behind the clients' back. Paths are absolute, through exports.
  bool make_directory(std::string_view path, uint32_t mode = 0755, uint32_t uid = 0, uint32_t gid = 0);
  bool make_file(std::string_view path, std::string_view content, uint32_t mode = 0644, uint32_t uid = 0,
                 uint32_t gid = 0);
  bool make_symlink(std::string_view path, std::string_view target);
  bool write_file(std::string_view path, uint64_t offset, std::string_view content);
  // Of an object in memory; an empty one: its mode says all. Shown where the switches say so.
  void set_acl(std::string_view path, std::vector<nfs4::nfsace4> acl);
  bool remove_file(std::string_view path);
  std::optional<std::string> read_file(std::string_view path);
  std::optional<FileFacts> stat(std::string_view path);
  std::vector<std::string> list(std::string_view path);
  // READDIR continuations of this directory become NFS4ERR_NOT_SAME.
  void invalidate_cookies(std::string_view path);
  void set_read_only(std::string_view export_path, bool read_only);
  void set_space(std::string_view export_path, uint64_t bytes_total);
  void set_limits(std::string_view export_path, uint64_t max_io, size_t max_name);

 private:
  struct Impl;
  explicit Server(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

}  // namespace nfsrdma::filer
