// SPDX-License-Identifier: Apache-2.0
// Initiator and Acceptor: the two ends of establishing a context. A token in, a token out, until done
// (RFC 2743 section 2.2.1, RFC 2203 section 5.2.2).
//
//     Initiator i = ...; Step first = i.step({});       // first.token: gss_token of RPCSEC_GSS_INIT
//     Step second = i.step(token of the server);        // second.done: i.take() gives the context
//
// They do no I/O with the peer. Initiator::step() may ask a KDC over the network (the service's ticket), so
// it belongs in a helper process; Acceptor::step() reads the keytab (and the replay cache), no network.
// Move-only; any thread, one at a time. Errors: Layer::kSecurity; an Initiator or Acceptor that failed stays
// failed.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "transport/security/gss/context.h"
#include "transport/security/gss/credential.h"
#include "transport/security/gss/name.h"

struct gss_ctx_id_struct;

namespace nfsrdma::gss {

struct Step {
  bool done = false;             // the context is established at this end
  ByteVector token{};            // for the peer; empty: nothing to send, also with an error
  uint32_t major = 0;            // rpc_gss_init_res.gss_major
  uint32_t minor = 0;            // rpc_gss_init_res.gss_minor
  std::optional<Error> error{};  // set: establishing failed
};

class Initiator {
 public:
  // With mutual authentication, and without GSS's own replay detection and sequence (RFC 2203 section 5.2.2
  // forbids both). Nothing is delegated. The credential is kept until the end.
  Initiator(std::shared_ptr<const Credential> credential, std::shared_ptr<const Name> server);
  Initiator(Initiator&&) noexcept;
  Initiator& operator=(Initiator&&) noexcept;
  ~Initiator();

  // `token`: the peer's, empty the first time.
  Step step(ConstBytes token);
  bool done() const { return done_; }
  // The context, once, after done().
  Result<Context> take();

 private:
  std::shared_ptr<const Credential> credential_;
  std::shared_ptr<const Name> server_;
  Context::Handle context_;
  bool done_ = false;
  bool failed_ = false;
};

class Acceptor {
 public:
  explicit Acceptor(std::shared_ptr<const Credential> credential);
  Acceptor(Acceptor&&) noexcept;
  Acceptor& operator=(Acceptor&&) noexcept;
  ~Acceptor();

  Step step(ConstBytes token);
  bool done() const { return done_; }
  Result<Context> take();

 private:
  std::shared_ptr<const Credential> credential_;
  Context::Handle context_;
  bool done_ = false;
  bool failed_ = false;
};

}  // namespace nfsrdma::gss
