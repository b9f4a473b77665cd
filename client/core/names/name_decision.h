// SPDX-License-Identifier: Apache-2.0
// How long the names of a directory are valid, and what our own change does to them: pure functions.
//
// Names belong to an epoch of their directory (NamesState). The epoch ends when another client changes the
// directory. Within an epoch, the directory's change attribute (ContentState) moves with our own changes.
#pragma once

#include <cstdint>

#include "client/api/options.h"
#include "client/core/attributes/content_state.h"
#include "client/core/names/name_cache.h"
#include "client/core/names/names_state.h"
#include "xdr/support/error.h"

namespace nfsrdma::client {

// The reply to a change of ours to a directory: change_info4 (RFC 8881 section 10.8.1).
//
//   contents are of   atomic  names        contents are of
//   `before`          yes     stay         `after`
//   `before`          no      uncertain    `after`
//   anything else     *       epoch ends   nothing known
//
// True: as far as is known, no other client changed the directory since `before`.
bool follow_own_change(ContentState& contents, NamesState& names, uint64_t before, uint64_t after,
                       bool atomic);

// What is known about a directory when one of its names is looked up.
struct DirectoryKnowledge {
  bool holds = false;      // the name's epoch is the current one, and the contents match the attributes
  bool uncertain = false;  // NamesState::uncertain
  Duration remaining{};    // how long the directory's attributes are still valid
};
// Whether this program may answer with the name: only while the directory's attributes are valid. Uncertain
// names are valid for at most acdirmax after the start of the request that showed them.
bool believes(const DirectoryKnowledge& directory, const NameBelief& belief, TimePoint now,
              Duration acdirmax);
// How long the kernel may cache the name. `free`: everybody may search the directory; the kernel would not
// check that.
Duration name_ttl(const DirectoryKnowledge& directory, const NameBelief& belief, TimePoint now,
                  Duration acdirmax, LookupCache lookupcache, bool free);

// True: after this error the state of the request's names is not known. An earlier transmission may have been
// executed, or the cached names were wrong.
bool leaves_doubt(const Error& error, bool maybe_executed);

}  // namespace nfsrdma::client
