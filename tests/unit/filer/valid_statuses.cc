// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/filer/valid_statuses.h"

#include <cstring>
#include <string_view>

#include "xdr/nfs4/op.h"

namespace nfsrdma::filer::test {

using namespace nfs4;

namespace {

struct Row {
  const char* operation;
  const char* statuses;  // without "NFS4ERR_"
};

// In nearly every row. (GETFH's row has fewer, though its reply can be too big like any other.)
constexpr const char* kAlways =
    "BADXDR DEADSESSION DELAY OP_NOT_IN_SESSION REP_TOO_BIG REP_TOO_BIG_TO_CACHE REQ_TOO_BIG "
    "RETRY_UNCACHED_REP SERVERFAULT TOO_MANY_OPS";
// "<fh>": operations that use the current filehandle.
constexpr const char* kFilehandle = "FHEXPIRED MOVED NOFILEHANDLE STALE";
// Statuses that an operation's description requires although its row in the table lacks them.
constexpr Row kBeside[] = {
    {"EXCHANGE_ID", "PERM"},                // section 18.35.4, case 9
    {"LOCKU", "ISDIR SYMLINK WRONG_TYPE"},  // section 18.12.3
    {"OPEN", "NOTSUPP"},                    // claims that a server "MAY support" (section 10.2.1)
};
constexpr Row kTable[] = {
    {"ACCESS", "<fh> ACCESS INVAL IO"},
    {"BACKCHANNEL_CTL", "INVAL NOENT"},
    {"BIND_CONN_TO_SESSION", "BADSESSION BAD_SESSION_DIGEST INVAL NOT_ONLY_OP"},
    {"CLOSE", "<fh> ADMIN_REVOKED BAD_STATEID EXPIRED LOCKS_HELD OLD_STATEID WRONG_CRED"},
    {"COMMIT", "<fh> ACCESS IO ISDIR SYMLINK WRONG_TYPE"},
    {"CREATE",
     "<fh> ACCESS ATTRNOTSUPP BADCHAR BADNAME BADOWNER BADTYPE DQUOT EXIST INVAL IO MLINK NAMETOOLONG "
     "NOSPC NOTDIR PERM ROFS UNSAFE_COMPOUND"},
    {"CREATE_SESSION",
     "CLID_INUSE INVAL NOENT NOT_ONLY_OP NOSPC SEQ_MISORDERED STALE_CLIENTID TOOSMALL WRONG_CRED"},
    {"DELEGPURGE", "NOTSUPP WRONG_CRED"},
    {"DELEGRETURN",
     "<fh> ADMIN_REVOKED BAD_STATEID DELEG_REVOKED EXPIRED INVAL NOTSUPP OLD_STATEID WRONG_CRED"},
    {"DESTROY_CLIENTID", "CLIENTID_BUSY NOT_ONLY_OP STALE_CLIENTID WRONG_CRED"},
    {"DESTROY_SESSION",
     "BACK_CHAN_BUSY BADSESSION CB_PATH_DOWN CONN_NOT_BOUND_TO_SESSION NOT_ONLY_OP STALE_CLIENTID "
     "WRONG_CRED"},
    {"EXCHANGE_ID", "BADCHAR CLID_INUSE ENCR_ALG_UNSUPP HASH_ALG_UNSUPP INVAL NOENT NOT_ONLY_OP NOT_SAME"},
    {"FREE_STATEID", "BAD_STATEID LOCKS_HELD OLD_STATEID WRONG_CRED"},
    {"GETATTR", "<fh> ACCESS GRACE INVAL IO WRONG_TYPE"},
    {"GETFH", "<fh>"},
    {"GET_DIR_DELEGATION", "<fh> ACCESS DIRDELEG_UNAVAIL GRACE INVAL IO NOTDIR NOTSUPP"},
    {"LINK",
     "<fh> ACCESS BADCHAR BADNAME DQUOT EXIST FILE_OPEN GRACE INVAL ISDIR IO MLINK NAMETOOLONG NOSPC "
     "NOTDIR NOTSUPP ROFS SYMLINK WRONGSEC WRONG_TYPE XDEV"},
    {"LOCK",
     "<fh> ACCESS ADMIN_REVOKED BAD_RANGE BAD_STATEID DEADLOCK DENIED EXPIRED GRACE INVAL ISDIR "
     "LOCK_NOTSUPP LOCK_RANGE NO_GRACE OLD_STATEID OPENMODE RECLAIM_BAD RECLAIM_CONFLICT ROFS SYMLINK "
     "WRONG_CRED WRONG_TYPE"},
    {"LOCKT", "<fh> ACCESS BAD_RANGE DENIED GRACE INVAL ISDIR LOCK_RANGE ROFS SYMLINK WRONG_CRED WRONG_TYPE"},
    {"LOCKU",
     "<fh> ACCESS ADMIN_REVOKED BAD_RANGE BAD_STATEID EXPIRED INVAL LOCK_RANGE OLD_STATEID WRONG_CRED"},
    {"LOOKUP", "<fh> ACCESS BADCHAR BADNAME INVAL IO NAMETOOLONG NOENT NOTDIR SYMLINK WRONGSEC"},
    {"LOOKUPP", "<fh> ACCESS IO NOENT NOTDIR SYMLINK WRONGSEC"},
    {"NVERIFY", "<fh> ACCESS ATTRNOTSUPP BADCHAR GRACE INVAL IO SAME UNKNOWN_LAYOUTTYPE WRONG_TYPE"},
    {"OPEN",
     "<fh> ACCESS ADMIN_REVOKED ATTRNOTSUPP BADCHAR BADNAME BADOWNER BAD_STATEID DELEG_ALREADY_WANTED "
     "DELEG_REVOKED DQUOT EXIST EXPIRED FBIG GRACE INVAL ISDIR IO NAMETOOLONG NOENT NOSPC NOTDIR NO_GRACE "
     "OLD_STATEID PERM RECLAIM_BAD RECLAIM_CONFLICT ROFS SHARE_DENIED SYMLINK UNSAFE_COMPOUND WRONGSEC "
     "WRONG_TYPE"},
    {"OPENATTR", "<fh> ACCESS DQUOT IO NOENT NOSPC NOTSUPP ROFS UNSAFE_COMPOUND WRONG_TYPE"},
    {"OPEN_DOWNGRADE", "<fh> ADMIN_REVOKED BAD_STATEID EXPIRED INVAL OLD_STATEID ROFS WRONG_CRED"},
    {"PUTFH", "BADHANDLE MOVED STALE WRONGSEC"},
    {"PUTPUBFH", "WRONGSEC"},
    {"PUTROOTFH", "WRONGSEC"},
    {"READ",
     "<fh> ACCESS ADMIN_REVOKED BAD_STATEID DELEG_REVOKED EXPIRED GRACE INVAL ISDIR IO LOCKED OLD_STATEID "
     "OPENMODE PNFS_IO_HOLE PNFS_NO_LAYOUT SYMLINK WRONG_TYPE"},
    {"READDIR", "<fh> ACCESS BAD_COOKIE INVAL IO NOTDIR NOT_SAME TOOSMALL"},
    {"READLINK", "<fh> ACCESS INVAL IO WRONG_TYPE"},
    {"RECLAIM_COMPLETE", "<fh> COMPLETE_ALREADY INVAL WRONG_CRED WRONG_TYPE"},
    {"REMOVE", "<fh> ACCESS BADCHAR BADNAME FILE_OPEN GRACE INVAL IO NAMETOOLONG NOENT NOTDIR NOTEMPTY ROFS"},
    {"RENAME",
     "<fh> ACCESS BADCHAR BADNAME DQUOT EXIST FILE_OPEN GRACE INVAL IO MLINK NAMETOOLONG NOENT NOSPC "
     "NOTDIR NOTEMPTY ROFS WRONGSEC XDEV"},
    {"RESTOREFH", "<fh> WRONGSEC"},
    {"SAVEFH", "<fh>"},
    {"SECINFO", "<fh> ACCESS BADCHAR BADNAME INVAL NAMETOOLONG NOENT NOTDIR"},
    {"SECINFO_NO_NAME", "<fh> ACCESS INVAL NOENT NOTDIR NOTSUPP"},
    {"SEQUENCE",
     "BADSESSION BADSLOT BAD_HIGH_SLOT CONN_NOT_BOUND_TO_SESSION SEQUENCE_POS SEQ_FALSE_RETRY "
     "SEQ_MISORDERED"},
    {"SETATTR",
     "<fh> ACCESS ADMIN_REVOKED ATTRNOTSUPP BADCHAR BADOWNER BAD_STATEID DELEG_REVOKED DQUOT EXPIRED FBIG "
     "GRACE INVAL IO LOCKED NOSPC OLD_STATEID OPENMODE PERM ROFS UNKNOWN_LAYOUTTYPE WRONG_TYPE"},
    {"SET_SSV", "BAD_SESSION_DIGEST INVAL"},
    {"TEST_STATEID", ""},
    {"VERIFY", "<fh> ACCESS ATTRNOTSUPP BADCHAR GRACE INVAL IO NOT_SAME UNKNOWN_LAYOUTTYPE WRONG_TYPE"},
    {"WANT_DELEGATION",
     "<fh> DELEG_ALREADY_WANTED GRACE INVAL IO NOTSUPP NO_GRACE RECALLCONFLICT RECLAIM_BAD "
     "RECLAIM_CONFLICT WRONG_TYPE"},
    {"WRITE",
     "<fh> ACCESS ADMIN_REVOKED BAD_STATEID DELEG_REVOKED DQUOT EXPIRED FBIG GRACE INVAL IO ISDIR LOCKED "
     "NOSPC OLD_STATEID OPENMODE PNFS_IO_HOLE PNFS_NO_LAYOUT ROFS SYMLINK WRONG_TYPE"},
};

bool contains(std::string_view list, std::string_view word) {
  for (size_t at = list.find(word); at != list.npos; at = list.find(word, at + 1)) {
    const size_t end = at + word.size();
    if ((at == 0 || list[at - 1] == ' ') && (end == list.size() || list[end] == ' ')) return true;
  }
  return false;
}

const char* find(const Row* begin, const Row* end, const char* operation) {
  for (const Row* row = begin; row != end; ++row) {
    if (std::strcmp(row->operation, operation) == 0) return row->statuses;
  }
  return "";
}

}  // namespace

bool may_answer(nfs_opnum4 op, nfsstat4 status) {
  if (status == NFS4_OK) return op != OP_ILLEGAL;
  if (op == OP_ILLEGAL) return status == NFS4ERR_OP_ILLEGAL || status == NFS4ERR_BADXDR;
  const char* operation = op_name(op);
  if (operation == nullptr) return false;
  const std::string name = nfs4::name_of(status);
  const std::string_view word = std::string_view(name).substr(std::strlen("NFS4ERR_"));
  const std::string_view listed = find(std::begin(kTable), std::end(kTable), operation);
  // Operations without a row: pNFS, and those that "MUST NOT be implemented".
  if (listed.empty() && op != OP_TEST_STATEID) return status == NFS4ERR_NOTSUPP || contains(kAlways, word);
  return contains(listed, word) || contains(kAlways, word) ||
         (listed.starts_with("<fh>") && contains(kFilehandle, word)) ||
         contains(find(std::begin(kBeside), std::end(kBeside), operation), word);
}

}  // namespace nfsrdma::filer::test
