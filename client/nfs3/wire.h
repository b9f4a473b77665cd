// SPDX-License-Identifier: Apache-2.0
// Arguments and results of NFSv3's procedures (RFC 1813 section 3.3), in the client's own types. The
// library's types are used only in its callbacks, and nothing here refers to its memory.
//
// NFSv3 has no change attribute. Attributes.change is ctime in nanoseconds: it moves with every change of a
// file or directory, at the resolution of the server's clock (RFC 1813 section 4.8; docs/conformance/nfsv3.md
// has the limit).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client/api/filesystem.h"
#include "xdr/nfs4/basic.h"

namespace nfsrdma::client::nfs3 {

// nfsstat3, RFC 1813 section 2.6. The values below 10000, and their names, are also NFSv4's.
enum Status : uint32_t {
  NFS3_OK_ = 0,
  NFS3ERR_NOENT_ = 2,
  NFS3ERR_EXIST_ = 17,
  NFS3ERR_NOTEMPTY_ = 66,
  NFS3ERR_STALE_ = 70,
  NFS3ERR_NOT_SYNC_ = 10002,
  NFS3ERR_BAD_COOKIE_ = 10003,
  NFS3ERR_NOTSUPP_ = 10004,
  NFS3ERR_JUKEBOX_ = 10008,
};

// The error that the application gets, as from the kernel's client.
Error nfs3_error(uint32_t status, const char* op);

enum class Procedure : uint8_t {
  kNull,
  kGetattr,
  kSetattr,
  kLookup,
  kAccess,
  kReadlink,
  kRead,
  kWrite,
  kCreate,
  kMkdir,
  kSymlink,
  kMknod,
  kRemove,
  kRmdir,
  kRename,
  kLink,
  kReaddir,
  kReaddirplus,
  kFsstat,
  kFsinfo,
  kPathconf,
  kCommit,
};
std::string procedure_name(uint32_t procedure);

struct FileAttributes {
  client::Attributes attributes;  // ino: the fileid, unchanged
  uint64_t fsid = 0;
};
using PostAttributes = std::optional<FileAttributes>;  // post_op_attr
// wcc_data: `before` is the change attribute (above) before the operation.
struct Wcc {
  std::optional<uint64_t> before;
  PostAttributes after;
};

// Every reply has these. Replies with an error have attributes, too.
struct Answer {
  uint32_t status = 0;
  bool repeated = false;  // sent more than once, so perhaps executed more than once
};
struct AttributesAnswer : Answer {  // GETATTR
  FileAttributes object;
};
struct ChangeAnswer : Answer {  // SETATTR, REMOVE, RMDIR
  Wcc wcc;
};
struct ObjectAnswer : Answer {  // LOOKUP, CREATE, MKDIR, SYMLINK, MKNOD
  std::string handle;           // empty: not in the reply
  PostAttributes object;
  Wcc directory;  // LOOKUP: only `after`
};
struct AccessAnswer : Answer {
  PostAttributes object;
  uint32_t access = 0;
};
struct ReadlinkAnswer : Answer {
  PostAttributes object;
  std::string target;
};
struct ReadAnswer : Answer {
  MutableBytes destination;  // input: where the data goes
  PostAttributes object;
  size_t count = 0;
  bool eof = false;
};
struct WriteAnswer : Answer {  // WRITE, COMMIT
  Wcc wcc;
  uint32_t count = 0;
  uint32_t committed = 0;  // stable_how
  nfs4::verifier4 verifier;
};
struct RenameAnswer : Answer {
  Wcc from, to;
};
struct LinkAnswer : Answer {
  PostAttributes object;
  Wcc directory;
};
struct ReaddirAnswer : Answer {
  PostAttributes directory;
  nfs4::verifier4 verifier;
  struct Item {
    uint64_t fileid = 0, cookie = 0;
    std::string name;
    PostAttributes object;  // READDIRPLUS, if in the reply
    std::string handle;
  };
  std::vector<Item> entries;
  bool eof = false;
};
struct FsstatAnswer : Answer {
  client::FilesystemStatus space;
};
struct FsinfoAnswer : Answer {
  PostAttributes root;
  uint32_t rtmax = 0, wtmax = 0;
  uint64_t maxfilesize = 0;
};
struct PathconfAnswer : Answer {
  uint32_t name_max = 0;
};

}  // namespace nfsrdma::client::nfs3
