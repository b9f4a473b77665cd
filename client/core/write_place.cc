// SPDX-License-Identifier: Apache-2.0
#include "client/core/write_place.h"

#include "transport/runtime/mutex.h"

namespace nfsrdma::client {

void WritePlace::leave() {
  if (!place_.waiting) return;
  MutexLock lock(file_->cached.mutex);
  file_->writes.leave(place_);
}

}  // namespace nfsrdma::client
