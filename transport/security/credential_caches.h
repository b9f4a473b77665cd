// SPDX-License-Identifier: Apache-2.0
// Where a user's tickets are looked for, in this order (rpc.gssd's places):
//
//     in his own mount (root of a user namespace has one, too) the library's default: KRB5CCNAME, or
//     default_ccache_name of krb5.conf FILE:/tmp/krb5cc_UID, then the newest of /tmp/krb5cc_UID_*
//     DIR:/run/user/UID/krb5cc, FILE:/run/user/UID/krb5cc*
//     KEYRING:persistent:UID, KCM:
//
// A file counts only if it is a regular file of that user: in /tmp anyone could put a cache with his own
// tickets there, and the user's files would then be written in his name. So root's mount does not use the
// library's default, which may be such a file, and the environment is that of whoever mounted. Reads
// directories; called by the helper after it has become that user.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace nfsrdma::security {

struct CachePlaces {
  std::string temporary = "/tmp";
  std::string run = "/run/user";
};

// Names as in KRB5CCNAME; an empty one stands for the library's default. `own_mount`: the mount is this
// user's.
std::vector<std::string> credential_caches(uint32_t user, bool own_mount, const CachePlaces& places = {});

}  // namespace nfsrdma::security
