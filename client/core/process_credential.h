// SPDX-License-Identifier: Apache-2.0
// The AUTH_SYS credential of this process, for requests that no user makes.
#pragma once

#include <string>

#include "transport/rpc/credential.h"

namespace nfsrdma::client {

// The host name in AUTH_SYS credentials.
std::string machine_name();
rpc::CredentialPtr process_credential();

}  // namespace nfsrdma::client
