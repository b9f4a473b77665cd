// SPDX-License-Identifier: Apache-2.0
// What a Protocol returns of a server's answers. The services of client/core record it: AttributeService the
// attributes, AccessService ACCESS and ACLs, NameService names and what changed in a directory.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "client/api/filesystem.h"
#include "client/core/attributes/attribute_decision.h"
#include "client/core/names/listed_entry.h"
#include "client/core/write/write_extents.h"
#include "xdr/nfs4/file_ops.h"

namespace nfsrdma::client {

// The attributes of a Node in an answer.
struct AnsweredAttributes {
  // Nothing: the answer has no attributes, and the cached ones may be old.
  std::optional<Attributes> attributes = std::nullopt;
  uint64_t order = 0;  // when the request began (CachedNodeTable::next_start())
  Cause cause = Cause::kAsked;
  // kOwn: the change attribute before our operation, from the same COMPOUND. Nothing: nobody else can have
  // changed the file, or the server did not return it.
  std::optional<uint64_t> before = std::nullopt;
};

// Every ACCESS requests all bits, so that its answer also serves later requests. NFSv3's bits are the same.
constexpr uint32_t kEveryAccess = nfs4::ACCESS4_READ | nfs4::ACCESS4_LOOKUP | nfs4::ACCESS4_MODIFY |
                                  nfs4::ACCESS4_EXTEND | nfs4::ACCESS4_DELETE | nfs4::ACCESS4_EXECUTE;

// ACCESS (RFC 8881 section 18.1): ACCESS4_*, and the change attribute that belongs to them.
struct AccessBits {
  uint32_t supported = 0, allowed = 0;
  uint64_t change = 0;
};
struct AccessOutcome {
  AccessBits bits{};           // `change` only if `after` has attributes
  AnsweredAttributes after{};  // of the same object
};

// A directory's ACL.
struct AclOutcome {
  bool everybody_searches = false;
  uint64_t change = 0;
};

struct LookupOutcome {
  AnsweredAttributes directory;
  // The directory's change attribute that the answer belongs to. Nothing: it may belong to an earlier one.
  std::optional<uint64_t> names_change;
  Result<NodeRef> found;          // null: the directory has no such name
  AnsweredAttributes attributes;  // of `found`
  std::optional<AccessBits> access;
};

// What a request did to a directory: change_info4, or NFSv3's wcc_data.
struct DirectoryChange {
  uint64_t before = 0, after = 0;
  bool atomic = false;                                  // no other client's change lies between the two
  std::optional<Attributes> attributes = std::nullopt;  // after it
};

// The fate of a request that changes names.
struct NamesFate {
  uint64_t order = 0;     // when the request began
  bool answered = true;   // false: the server may have executed the request nevertheless
  bool repeated = false;  // sent again after a lost answer: an error may come from our own first execution
};
struct RemoveOutcome {
  NamesFate fate;
  // Nothing: it was executed, and the answer was lost.
  Result<std::optional<DirectoryChange>> changed;
  std::optional<AnsweredAttributes> directory;  // with an error
};
struct RenameOutcome {
  struct Changes {
    DirectoryChange from, to;  // one directory: `to` is the change, `from` is not used
  };
  NamesFate fate;
  Result<Changes> changed;
  std::optional<AnsweredAttributes> from, to;  // with an error
};
struct LinkOutcome {
  NamesFate fate;
  Result<DirectoryChange> changed;
  std::optional<AnsweredAttributes> directory;  // with an error
  AnsweredAttributes node;                      // of the linked object
};

struct WriteOutcome {
  size_t bytes = 0;  // written, from the beginning of the data: 1 to its size
  Written written{};
  AnsweredAttributes after{};
};
struct CommitOutcome {
  nfs4::verifier4 verifier{};
  AnsweredAttributes after{};
};

// READDIR, and what precedes it in its COMPOUND.
struct ListOutcome {
  AnsweredAttributes directory;
  std::optional<uint64_t> names_change;  // as in LookupOutcome
  std::optional<AccessBits> access;
  std::optional<AclOutcome> acl;
  Result<> read;  // of READDIR; the members below are set only if it succeeded
  bool plus = false;
  bool eof = false;
  nfs4::verifier4 verifier;
  std::vector<ListedEntry> entries;
};

}  // namespace nfsrdma::client
