// SPDX-License-Identifier: Apache-2.0
// Credential: what one end proves its identity with: tickets of a credential cache, or keys of a keytab.
// Mechanism krb5 alone, so that no peer can choose another (SPNEGO, IAKERB).
//
// Owns the library's object; move-only. Any thread, one at a time. Every function reads files, and those of
// an initiator may ask a KDC over the network: an initiator's belong in a helper process, not on a loop.
// Errors: Layer::kSecurity with gss::Failure.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "transport/security/gss/name.h"
#include "xdr/support/result.h"

struct gss_cred_id_struct;

namespace nfsrdma::gss {

class Credential {
 public:
  enum class Use : uint8_t { kInitiate, kAccept };

  // A user's tickets. `ccache` is a name as in KRB5CCNAME: "FILE:/tmp/krb5cc_1000",
  // "KEYRING:persistent:1000", "KCM:"; empty: the caller's own default. Failure::kNoTicket, kTicketExpired.
  static Result<Credential> from_ccache(const std::string& ccache);

  // A machine's or service's: the library gets tickets for `principal` by the keytab's key, keeps them in
  // `ccache` ("MEMORY:..." for this process alone) and gets new ones in time when it is used again. `keytab`:
  // "FILE:/etc/krb5.keytab"; empty: the system's default (KRB5_KTNAME, krb5.conf's default_keytab_name).
  // Blocks on the KDC. Failure::kNoKeytabEntry, kUnknownClient, kKdcUnreachable.
  static Result<Credential> from_keytab(const std::string& keytab, const Name& principal,
                                        const std::string& ccache);

  struct Accepting {
    std::string keytab{};         // empty: the system's default
    std::string service = "nfs";  // tickets for other services of the keytab are refused; empty: any
    // Whether the library remembers authenticators in a file, so that a replayed INIT token is refused. An
    // RPC server needs none: who replays a token gets a context whose session key he does not know, and each
    // entry costs an fsync.
    bool replay_cache = false;
  };
  // A server's. Reads the keytab again for each token, so a rotated keytab is in force at once. Failure::
  // kNoKeytab, kNoKeytabEntry.
  static Result<Credential> accepting(const Accepting& options);

  Use use() const { return use_; }
  // The principal of the tickets, or the service that the acceptor answers for.
  Result<Name> name() const;
  // How long tickets last; nullopt: without end (a keytab). Zero: they have expired.
  Result<std::optional<std::chrono::seconds>> lifetime() const;

  gss_cred_id_struct* get() const { return credential_.get(); }

 private:
  struct Release {
    void operator()(gss_cred_id_struct* credential) const;
  };
  using Handle = std::unique_ptr<gss_cred_id_struct, Release>;
  Credential(Handle credential, Use use, std::string source)
      : credential_(std::move(credential)), use_(use), source_(std::move(source)) {}

  Handle credential_;
  Use use_;
  std::string source_;  // the credential cache or keytab, for messages
};

}  // namespace nfsrdma::gss
