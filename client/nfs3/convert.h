// SPDX-License-Identifier: Apache-2.0
// Converts the library's structures to those of wire.h, and back. Private to client/nfs3/*.cc, like libnfs.h.
//
// take() copies a result in a RawCall's callback. Results come from the network: the library has checked
// every length against the message's size, and nothing else.
#pragma once

#include "client/nfs3/libnfs.h"
#include "client/nfs3/wire.h"

namespace nfsrdma::client::nfs3 {

// `handle` must outlive the returned structure.
nfs_fh3 to_wire(const std::string& handle);
sattr3 to_wire(const client::SetAttributes& set);
FileAttributes from_wire(const fattr3& a);

Result<> take(const GETATTR3res& from, AttributesAnswer& into);
Result<> take(const SETATTR3res& from, ChangeAnswer& into);
Result<> take(const REMOVE3res& from, ChangeAnswer& into);
Result<> take(const RMDIR3res& from, ChangeAnswer& into);
Result<> take(const LOOKUP3res& from, ObjectAnswer& into);
Result<> take(const CREATE3res& from, ObjectAnswer& into);
Result<> take(const MKDIR3res& from, ObjectAnswer& into);
Result<> take(const SYMLINK3res& from, ObjectAnswer& into);
Result<> take(const MKNOD3res& from, ObjectAnswer& into);
Result<> take(const ACCESS3res& from, AccessAnswer& into);
Result<> take(const READLINK3res& from, ReadlinkAnswer& into);
Result<> take(const READ3res& from, ReadAnswer& into);
Result<> take(const WRITE3res& from, WriteAnswer& into);
Result<> take(const COMMIT3res& from, WriteAnswer& into);
Result<> take(const RENAME3res& from, RenameAnswer& into);
Result<> take(const LINK3res& from, LinkAnswer& into);
Result<> take(const READDIR3res& from, ReaddirAnswer& into);
Result<> take(const READDIRPLUS3res& from, ReaddirAnswer& into);
Result<> take(const FSSTAT3res& from, FsstatAnswer& into);
Result<> take(const FSINFO3res& from, FsinfoAnswer& into);
Result<> take(const PATHCONF3res& from, PathconfAnswer& into);

}  // namespace nfsrdma::client::nfs3
