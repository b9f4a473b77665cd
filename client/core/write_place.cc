// SPDX-License-Identifier: Apache-2.0
#include "client/core/write_place.h"

namespace nfsrdma::client {

void WritePlace::leave() {
  if (!place_.waiting) return;
  std::lock_guard lock(file_->cached.mutex);
  file_->writes.leave(place_);
}

}  // namespace nfsrdma::client
