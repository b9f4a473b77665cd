// SPDX-License-Identifier: Apache-2.0
// The security flavors of a mount, as nfs(5) names them, and the choice among them (RFC 8881
// sections 2.6.3.1, 18.29, 18.45). Values only; any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "transport/runtime/mutex.h"

namespace nfsrdma::client {

enum class SecurityFlavor : uint8_t { kSys, kKrb5, kKrb5i, kKrb5p };

std::string_view to_string(SecurityFlavor flavor);
std::optional<SecurityFlavor> security_flavor(std::string_view name);  // "sys", "krb5", "krb5i", "krb5p"
inline bool uses_kerberos(SecurityFlavor flavor) {
  return flavor != SecurityFlavor::kSys;
}
// "krb5p:krb5"
std::string joined(std::span<const SecurityFlavor> flavors);

// The flavor to use where the server accepts `offered`, in its order of preference: the first that the user
// wants too. Nothing wanted: any. As Linux' client does. nullopt: there is none.
std::optional<SecurityFlavor> choose_flavor(std::span<const SecurityFlavor> wanted,
                                            std::span<const SecurityFlavor> offered);

// What a server said when it refused a mount's flavor (NFS4ERR_WRONGSEC). Shared by the attempts of a mount.
class OfferedFlavors {
 public:
  void set(std::vector<SecurityFlavor> flavors) {
    MutexLock lock(mutex_);
    flavors_ = std::move(flavors);
  }
  std::vector<SecurityFlavor> take() {
    MutexLock lock(mutex_);
    return std::exchange(flavors_, {});
  }

 private:
  Mutex mutex_;
  std::vector<SecurityFlavor> flavors_ NFSRDMA_GUARDED_BY(mutex_);
};

}  // namespace nfsrdma::client
