// SPDX-License-Identifier: Apache-2.0
#include "client/nfs4/session/server_identity.h"

#include <fmt/format.h>

#include <cstddef>
#include <utility>

#include "transport/runtime/mutex.h"

namespace nfsrdma::client::nfs4 {
namespace {

// For opaque data that is text. Linux' server includes the NUL after its name.
std::string without_nuls(std::string text) {
  while (!text.empty() && text.back() == '\0') text.pop_back();
  return text;
}

}  // namespace

bool ServerIdentity::note(const nfs4::EXCHANGE_ID4resok& ok) {
  MutexLock lock(mutex_);
  const bool same_scope = scope_ == ok.eir_server_scope;
  owner_ = ok.eir_server_owner.so_major_id;
  scope_ = ok.eir_server_scope;
  implementation_ = ok.eir_server_impl_id ? ok.eir_server_impl_id->nii_name : "";
  return same_scope;
}

void ServerIdentity::set_session(const nfs4::sessionid4& session) {
  MutexLock lock(mutex_);
  session_ = session;
}

nfs4::sessionid4 ServerIdentity::session() const {
  MutexLock lock(mutex_);
  return session_;
}

void ServerIdentity::fill(SessionStatistics& statistics) const {
  MutexLock lock(mutex_);
  for (const std::byte b : session_.data)
    statistics.session_id += fmt::format("{:02x}", std::to_integer<unsigned>(b));
  statistics.server_owner = without_nuls(owner_);
  statistics.server_scope = without_nuls(scope_);
  statistics.server_implementation = without_nuls(implementation_);
}

}  // namespace nfsrdma::client::nfs4
