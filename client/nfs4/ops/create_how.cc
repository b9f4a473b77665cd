// SPDX-License-Identifier: Apache-2.0
#include "client/nfs4/ops/create_how.h"

#include <fcntl.h>

namespace nfsrdma::client::nfs4 {

nfs4::createhow4 how_to_create(int flags, uint32_t mode, const nfs4::bitmap4& settable,
                               const nfs4::verifier4& verifier) {
  const bool exclusive = (flags & O_EXCL) != 0;
  nfs4::createhow4 how;
  how.mode = exclusive ? nfs4::EXCLUSIVE4_1 : nfs4::UNCHECKED4;
  how.createverf = verifier;
  if (!exclusive || settable.test(nfs4::FATTR4_MODE)) {
    how.createattrs.attrmask.set(nfs4::FATTR4_MODE);
    how.createattrs.mode = mode & 07777;
  }
  if (!exclusive && (flags & O_TRUNC) != 0) how.createattrs.attrmask.set(nfs4::FATTR4_SIZE);
  return how;
}

// Section 18.16.3: the server says in `attrset` "both which attributes the server set from cva_attrs and
// which attributes the server used to store the verifier", and section 18.16.4: "The client MUST immediately
// send a SETATTR to set attributes used to store the verifier" (in another COMPOUND). nfs-ganesha and Linux'
// server store it in the times.
SetAttributes left_to_set(const nfs4::createhow4& how, const nfs4::bitmap4& attrset, uint32_t mode) {
  SetAttributes rest;
  if (how.mode != nfs4::EXCLUSIVE4_1) return rest;
  const nfs4::bitmap4& asked = how.createattrs.attrmask;
  if (!asked.test(nfs4::FATTR4_MODE) || !attrset.test(nfs4::FATTR4_MODE)) rest.mode = mode & 07777;
  const SetAttributes::Time now{.now = true};
  if (attrset.test(nfs4::FATTR4_TIME_ACCESS) || attrset.test(nfs4::FATTR4_TIME_ACCESS_SET)) rest.atime = now;
  if (attrset.test(nfs4::FATTR4_TIME_MODIFY) || attrset.test(nfs4::FATTR4_TIME_MODIFY_SET)) rest.mtime = now;
  return rest;
}

bool existed(const nfs4::createhow4& how, const nfs4::change_info4& directory) {
  return how.mode != nfs4::EXCLUSIVE4_1 && directory.atomic && directory.before == directory.after;
}

}  // namespace nfsrdma::client::nfs4
