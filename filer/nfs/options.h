// SPDX-License-Identifier: Apache-2.0
// Options and switches of a Server.
//
// Options are fixed when the server starts. Switches select behaviour that RFC 8881 leaves to the server, or
// that a test wants a client to cope with. Server::configure() changes them under the server's lock; they
// apply from the next operation on.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "filer/links/believed.h"
#include "filer/links/tls_door.h"
#include "filer/security/identity.h"
#include "filer/state/clients.h"
#include "filer/state/states.h"
#include "filer/tree/host_export.h"
#include "filer/tree/node.h"
#include "transport/rdma/responder.h"

namespace nfsrdma::filer::nfs {

// RPC-over-RDMA, beside TCP: in software, and through each RDMA device that has the address.
struct RdmaListenOptions {
  bool listen = false;
  bool software = true;
  bool devices = true;    // software and devices: the server starts if one of both can listen
  std::string address{};  // empty: the same address as TCP
  uint16_t port = 0;      // 0: any free port
  rdma::ResponderOptions responder{.first_credits = 4};
};

struct Options {
  // Limit for connections of all transports. Each connection's memory is bounded, so this bounds all memory.
  size_t max_links = 1024;
  // Limit for the bytes that all connections make the server hold: incomplete calls and replies not yet sent.
  size_t max_held_bytes = 512u << 20;
  // A connection that has never used a session ends when no call came for this long.
  std::chrono::milliseconds idle_without_session{60'000};
  // A connection ends when its client leaves a record unfinished, or receives none of its replies, for this
  // long.
  std::chrono::milliseconds patience{120'000};
  // Peers whose calls are executed. Calls of other peers are answered AUTH_TOOWEAK, except NULL.
  links::Believed believed = links::Believed::kEverybody;
  // TLS over TCP (RFC 9289); absent: none.
  std::optional<tls::Settings> tls{};
  links::TlsPolicy tls_policy = links::TlsPolicy::kOffered;
  std::string address = "127.0.0.1";
  uint16_t port = 0;  // TCP; 0: any free port
  RdmaListenOptions rdma{};
  std::vector<std::string> exports = {"/export"};  // exports kept in memory
  std::vector<tree::HostExport> directories{};     // exports that are directories of the host
  // The flavors that exports accept, best first, and those of single exports, by path.
  tree::Flavors flavors{tree::Flavor::kSys};
  std::map<std::string, tree::Flavors> export_flavors{};
  // RPCSEC_GSS is answered with the keys of a keytab. Otherwise it is AUTH_REJECTEDCRED.
  bool kerberos = false;
  std::string keytab{};  // empty: the system's default
  security::Identities::Lookup accounts = security::account_of;
  // Directory for what the next run must know (state/stable_storage.h): which clients may reclaim, and the
  // key of filehandles. Empty: nothing is stored, and neither survives the process.
  std::string state_directory{};
  bool journal = true;  // keep a record of executed COMPOUNDs, for tests
  state::ClientTable::Identity identity{};
  state::ClientTable::Limits limits{};
  state::StateTable::Limits state_limits{};
  std::chrono::seconds lease{90};
  std::chrono::seconds grace{90};
  // Only Server::advance_clock() moves the clock of leases, grace period and recalls.
  bool manual_clock = false;
  uint64_t max_read_bytes = 1u << 20;
  uint64_t max_write_bytes = 1u << 20;
};

// What happens to a client with an expired lease (RFC 8881 section 8.4.3).
enum class Expiry : uint8_t {
  kRevokeState,   // session and client ID stay; all state is NFS4ERR_EXPIRED, with EXPIRED_ALL_STATE_REVOKED
  kForgetClient,  // the client is forgotten: BADSESSION, then STALE_CLIENTID
  // State stays for a day, or until another client requests something that conflicts with it: then
  // EXPIRED_SOME_STATE_REVOKED. After the day the client is forgotten.
  kCourtesy,
};

enum class Delegations : uint8_t {
  kNever,
  kRead,         // read delegations for opens that do not write
  kReadOrWrite,  // as kRead, and write delegations for opens that write
};

struct Switches {
  bool atomic_change_info = true;
  bool preserve_unlinked = true;   // OPEN4_RESULT_PRESERVE_UNLINKED
  bool verifier_in_times = false;  // exclusive creates keep their verifier in times, as on Linux' server
  bool lose_unstable_on_restart = true;
  // Client IDs, sessions and reply caches survive; opens, locks and delegations do not.
  bool keep_sessions_on_restart = false;
  bool writes_are_stable = false;    // answer FILE_SYNC4 to every WRITE
  bool writes_are_unstable = false;  // answer UNSTABLE4 to every WRITE, though that is not allowed
  uint64_t short_write_bytes = 0;    // write at most this many bytes of each WRITE; 0: all
  uint64_t short_read_bytes = 0;     // return at most this many bytes for each READ; 0: all
  bool back_channels = true;         // false: no connection becomes a session's back channel
  Delegations delegations = Delegations::kNever;
  // How long a COMPOUND waits for a conflicting delegation to be returned before it is answered
  // NFS4ERR_DELAY. 0: it does not wait.
  std::chrono::milliseconds conflict_wait{1000};
  Expiry expiry = Expiry::kRevokeState;
  bool strict_cookie_verifier = false;  // READDIR's verifier follows the directory's change attribute
  bool looping_cookies = false;    // READDIR continues with the first entry after the last one, without end
  bool detect_false_retry = true;  // SEQ_FALSE_RETRY also when only the operations differ
  bool enforce_connection_binding = false;  // CONN_NOT_BOUND_TO_SESSION on connections that are not bound
  bool verify_reclaims = true;        // RECLAIM_BAD for state that the client did not hold before the restart
  bool give_delegations_back = true;  // to a client that reclaims them (section 10.2.1: "must be granted")
  bool claims_by_handle = true;       // false: CLAIM_DELEG_CUR_FH is NFS4ERR_NOTSUPP (as nfs-ganesha)
  bool close_frees_locks = true;      // false: CLOSE with byte-range locks is NFS4ERR_LOCKS_HELD
  // Sets OPEN4_RESULT_MAY_NOTIFY_LOCK, and sends CB_NOTIFY_LOCK when a denied lock becomes free.
  bool notify_locks = false;
  uint32_t extra_status_flags = 0;  // SEQ4_STATUS_* added to every SEQUENCE
  tree::ChangeTold change_told = tree::ChangeTold::kTrue;
  bool shows_acls = false;      // `acl` of objects in memory can be read
  bool refuses_acls = false;    // GETATTR of `acl` is NFS4ERR_ACCESS (section 6.2.1.3.1: ACE4_READ_ACL)
  bool anonymous_root = false;  // root squash: user 0 becomes anonymous
};

}  // namespace nfsrdma::filer::nfs
