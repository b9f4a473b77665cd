// SPDX-License-Identifier: Apache-2.0
// How long the names of a directory are believed, and what a change of our own does to them: pure functions.
//
// Names belong to an epoch of their directory (NamesState), which ends when another client changes it. Below
// the epoch lies the directory's change attribute (ContentState), which moves with our own changes.
#pragma once

#include <cstdint>

#include "client/cache/cached_node.h"
#include "client/cache/name_cache.h"
#include "client/options.h"
#include "xdr/support/error.h"

namespace nfsrdma::client {

// The reply to a change of ours to a directory: change_info4 (RFC 8881 section 10.8.1).
//
//   contents are of   atomic  names        contents are of
//   `before`          yes     stay         `after`
//   `before`          no      uncertain    `after`
//   anything else     *       epoch ends   nothing known
//
// True: nobody else changed the directory since, as far as can be told.
bool follow_own_change(ContentState& contents, NamesState& names, uint64_t before, uint64_t after,
                       bool atomic);

// What is known of a directory when one of its names is asked for.
struct DirectoryKnowledge {
  bool holds = false;      // the name's epoch goes on, and the attributes are of the contents' change
  bool uncertain = false;  // NamesState::uncertain
  Duration remaining{};    // how long the directory's attributes are believed
};
// Whether this program may answer with the name: as long as the directory's attributes are believed, and
// names that are uncertain no longer than acdirmax after the request that showed them.
bool believes(const DirectoryKnowledge& directory, const NameBelief& belief, TimePoint now,
              Duration acdirmax);
// For how long the kernel may answer with it, without asking. `free`: everybody may search the directory,
// which the kernel would not check.
Duration name_ttl(const DirectoryKnowledge& directory, const NameBelief& belief, TimePoint now,
                  Duration acdirmax, LookupCache lookupcache, bool free);

// After this error the names that the request was about are not known any more: it may have been executed
// before, or they are not what they were taken for.
bool leaves_doubt(const Error& error, bool maybe_executed);

}  // namespace nfsrdma::client
