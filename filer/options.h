// SPDX-License-Identifier: Apache-2.0
// What a Server is made with, and what can be changed while it runs.
//
// Options are fixed at start. Switches are behaviours RFC 8881 leaves to the server, or that a test wants to
// see a client cope with; Server::switches() changes them under the server's lock, and they hold from the
// next operation on.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "filer/net/peer_check.h"
#include "filer/state/clients.h"
#include "filer/state/states.h"
#include "filer/tree/host_export.h"
#include "filer/tree/node.h"
#include "transport/rdma/responder.h"

namespace nfsrdma::filer {

// RPC over RDMA, beside TCP: in software, and through each RDMA device that has the address.
struct RdmaListenOptions {
  bool listen = false;
  bool software = true;
  bool devices = true;    // one of both is enough to be found listening
  std::string address{};  // empty: that of TCP
  uint16_t port = 0;      // 0: one that is free
  rdma::ResponderOptions responder{.first_credits = 4};
};

struct Options {
  // Connections at once, of all kinds: what each may make the server hold is bounded, so all of it is.
  size_t max_links = 1024;
  // What they make the server hold together: calls that have not come whole, replies that are not taken.
  size_t max_held_bytes = 512u << 20;
  // A connection ends when nothing was called on it for so long and it has never used a session, ...
  std::chrono::milliseconds idle_without_session{60'000};
  // ...when its client leaves a record unfinished, or takes none of its replies for so long.
  std::chrono::milliseconds patience{120'000};
  // Whose calls are executed; those of others are answered AUTH_TOOWEAK, but for NULL.
  Believed believed = Believed::kEverybody;
  std::string address = "127.0.0.1";
  uint16_t port = 0;  // TCP; 0: one that is free
  RdmaListenOptions rdma{};
  std::vector<std::string> exports = {"/export"};  // kept in memory
  std::vector<HostExport> directories{};           // kept by the host
  // Where the server keeps what the next run must know (state/stable_storage.h): who may reclaim, and the key
  // of filehandles. Empty: nowhere, and neither survives.
  std::string state_directory{};
  bool journal = true;  // keeps what was executed, for tests
  ClientTable::Identity identity{};
  ClientTable::Limits limits{};
  StateTable::Limits state_limits{};
  std::chrono::seconds lease{90};
  std::chrono::seconds grace{90};
  bool manual_clock = false;  // leases, grace and recalls pass only by Server::advance_clock()
  uint64_t max_read_bytes = 1u << 20;
  uint64_t max_write_bytes = 1u << 20;
};

// What becomes of a client whose lease has run out (RFC 8881 section 8.4.3).
enum class Expiry : uint8_t {
  kRevokeState,   // session and client ID stay, all state is NFS4ERR_EXPIRED: EXPIRED_ALL_STATE_REVOKED
  kForgetClient,  // BADSESSION, then STALE_CLIENTID
  kCourtesy,      // nothing for a day, until another client wants something that conflicts:
                  // EXPIRED_SOME_STATE_REVOKED; then it is forgotten
};

enum class Delegations : uint8_t {
  kNever,
  kRead,         // read delegations for opens that do not write
  kReadOrWrite,  // and write delegations for the others
};

struct Switches {
  bool atomic_change_info = true;
  bool preserve_unlinked = true;   // OPEN4_RESULT_PRESERVE_UNLINKED
  bool verifier_in_times = false;  // of an exclusive create, as Linux' server and nfs-ganesha keep it
  bool lose_unstable_on_restart = true;
  bool keep_sessions_on_restart = false;  // client IDs, sessions and reply caches survive, state does not
  bool writes_are_stable = false;         // answer FILE_SYNC4 to every WRITE
  bool writes_are_unstable = false;       // answer UNSTABLE4 to every WRITE, though that is not allowed
  uint64_t short_write_bytes = 0;         // write at most so much of each WRITE; 0: all
  uint64_t short_read_bytes = 0;          // return at most so much of each READ; 0: all
  bool back_channels = true;              // else no connection becomes a session's back channel
  Delegations delegations = Delegations::kNever;
  // So long a COMPOUND waits for the holder of a delegation that is in its way; then it is answered
  // NFS4ERR_DELAY. 0: at once.
  std::chrono::milliseconds conflict_wait{1000};
  Expiry expiry = Expiry::kRevokeState;
  bool strict_cookie_verifier = false;  // READDIR's verifier follows the directory's change attribute
  bool looping_cookies = false;         // behind a directory's last entry comes its first one, without an end
  bool detect_false_retry = true;       // SEQ_FALSE_RETRY also when only the operations differ
  bool enforce_connection_binding = false;  // CONN_NOT_BOUND_TO_SESSION on unbound connections
  bool verify_reclaims = true;              // RECLAIM_BAD for what was not held before the restart
  bool give_delegations_back = true;        // to who reclaims them (section 10.2.1: "must be granted")
  bool claims_by_handle = true;             // else CLAIM_DELEG_CUR_FH is NFS4ERR_NOTSUPP (nfs-ganesha)
  bool close_frees_locks = true;            // else CLOSE with byte-range locks is NFS4ERR_LOCKS_HELD
  bool notify_locks = false;  // OPEN4_RESULT_MAY_NOTIFY_LOCK, and CB_NOTIFY_LOCK when a denied lock is free
  uint32_t extra_status_flags = 0;  // SEQ4_STATUS_* added to every SEQUENCE
  ChangeTold change_told = ChangeTold::kTrue;
  bool shows_acls = false;      // `acl` can be read, of what is in memory
  bool refuses_acls = false;    // GETATTR of `acl` is NFS4ERR_ACCESS (section 6.2.1.3.1: ACE4_READ_ACL)
  bool anonymous_root = false;  // squash: AUTH_SYS user 0 becomes anonymous
};

}  // namespace nfsrdma::filer
