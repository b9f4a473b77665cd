// SPDX-License-Identifier: Apache-2.0
// Services: the services of a mount that a protocol uses. CachingFilesystem owns them and outlives their
// users.
#pragma once

#include "client/core/access_service.h"
#include "client/core/attribute_service.h"
#include "client/core/name_service.h"
#include "client/core/write_back.h"

namespace nfsrdma::client {

struct Services {
  AttributeService& attributes;
  AccessService& access;
  NameService& names;
  WriteBack& write_back;
};

}  // namespace nfsrdma::client
