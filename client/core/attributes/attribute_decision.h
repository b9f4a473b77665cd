// SPDX-License-Identifier: Apache-2.0
// What newly arrived attributes mean for the cached contents of an object: pure functions, without I/O, locks
// or clocks.
//
// Contents are a file's data, here and in the kernel's page cache, or a directory's names. They belong to one
// change attribute, `contents_change` (RFC 8881 section 10.3.1: "any cache validation approach by the client
// MUST include the use of the change attribute"). When attributes arrive, the caller
//   1. calls whose_change() to learn whether every change since then was our own (section 10.3.1 leaves it
//      to the client to tell its own changes from others'),
//   2. passes the attributes to the AttributeCache,
//   3. calls decide(), and does what it returns.
// All three happen under the Node's mutex. Invalidations in the kernel follow without it.
#pragma once

#include <cstdint>
#include <optional>

#include "client/core/attributes/attribute_cache.h"
#include "client/core/attributes/own_changes.h"

namespace nfsrdma::client {

// Why attributes came.
enum class Cause : uint8_t {
  kAsked,    // another client may have changed the object
  kOwn,      // the reply to a change of ours
  kOpened,   // kAsked, and the reply to open(2) says whether the kernel keeps its pages
  kCreated,  // kOpened, while the kernel holds the directory's lock: never wait for an invalidation
};
constexpr bool is_open(Cause cause) {
  return cause == Cause::kOpened || cause == Cause::kCreated;
}

// What is known about the object before the new attributes are applied.
struct KnownContents {
  bool promised = false;         // a delegation covers the object, and the lease holds
  bool known = false;            // contents_change is valid
  uint64_t contents_change = 0;  // change attribute of the contents
  uint64_t change = 0;           // change attribute of the cached attributes
  bool open = false;             // the file is open here
  bool writing = false;          // and there is written data that no WRITE reply covers yet
  bool kernel_knows = false;     // the kernel may have cached attributes
  uint64_t kernel_change = 0;    // their change attribute
};

// What arrived.
struct ArrivedAttributes {
  bool directory = false;
  Cause cause = Cause::kAsked;
  uint64_t change = 0;
  std::optional<uint64_t> before;  // kOwn: the change attribute before our operation, if the server said it
  bool same_rights = true;         // mode, owner and group are the cached ones
  bool search_withdrawn = false;   // everybody could search the directory, and cannot any more
  bool kernel_drops = false;       // the kernel drops its pages by itself when it sees size and mtime
};

// whose_change(): the first row that fits decides. If `before` is absent, `change` takes its place.
//
//   cause   writing  known  promised  object          before            ours?                 contents_change
//   others  no       *      *         *               *                 no                    stays
//   *       *        no     *         *               *                 yes                   stays
//   *       *        yes    yes       *               *                 yes                   stays
//   *       *        yes    no        directory       absent            yes                   stays
//   *       *        yes    no        directory       given             == contents_change    stays
//   kOwn    *        yes    no        file            absent            yes                   max(it, change)
//   *       *        yes    no        file, not open  *                 == contents_change    stays
//   *       *        yes    no        file, open      *                 no gap is left, or    follows our
//                                                                       writing and not       changes
//                                                                       is_open(cause)
//
// While data is being written the kernel's pages change together with the change attribute, so every cause is
// treated like kOwn. A gap is a span that none of our changes covers (own_changes.h).
struct Ownership {
  bool ours = false;             // all changes were ours, as far as is known now
  bool gaps = false;             // OwnChanges::gaps(): other clients' changes, or missing replies
  uint64_t contents_change = 0;  // the new value, after our changes
};
// `own`: the open file's, null unless KnownContents::open. The change is added to it.
Ownership whose_change(const KnownContents& known, const ArrivedAttributes& arrived, OwnChanges* own);

// decide(): what to do with the contents. "same": before whose_change(), contents were known and belonged to
// the change attribute that arrived. "followed": ours, known, an open file without a delegation.
//
//   attribute cache  same  ours  promised   data here  contents_change  contents are good  outdated
//   kIgnored         *     *     *          stays      stays            if known           gaps and not ours
//   accepted         yes   *     *          confirmed  change (1)       yes                no
//   accepted         no    yes   yes        confirmed  change (1)       if known           no
//   accepted         no    yes   no         dropped    change (1)       if known           no
//   accepted         no    no    *          dropped    change (1)       no                 (2)
//
//   (1) Unless followed, and only if contents were known, the object is a directory, or is_open(cause).
//       Before the first open, the kernel has no pages that could belong to a change attribute.
//   (2) If contents were known, the object is a file, and the kernel does not drop its pages by itself.
//
// In every row: if the attributes come with an open, and the kernel has cached attributes with another change
// attribute, the contents are outdated. The reason: fstat(2) after open(2) must not show an older file.
struct Decision {
  enum class Data : uint8_t { kStays, kConfirmed, kDropped };

  Data data = Data::kStays;            // what happens to the object's data in the data cache
  bool contents_known = false;         // the new values of KnownContents::known
  uint64_t contents_change = 0;        // and ::contents_change
  bool mixed = false;                  // our writes and perhaps others' changes: a new lock drops the pages
  bool names_epoch_ends = false;       // a directory that another client changed: names are hints from now on
  bool access_moves = false;           // ACCESS answers stay valid under the new change attribute
  bool kernel_change_moves = false;    // the kernel knows of our change: KnownContents::kernel_change follows
  bool kernel_forgets_rights = false;  // tell the kernel to ask for the attributes again
  bool kernel_forgets_names = false;   // tell the kernel to look up every name of the directory again
  bool outdated = false;               // the kernel's pages and attributes are old: tell it to drop both
  bool good = false;                   // the kernel's pages match the attributes that arrived
};
Decision decide(const KnownContents& known, const ArrivedAttributes& arrived, const Ownership& whose,
                AttributeCache::Update update);

}  // namespace nfsrdma::client
