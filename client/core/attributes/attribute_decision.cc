// SPDX-License-Identifier: Apache-2.0
#include "client/core/attributes/attribute_decision.h"

#include <algorithm>

namespace nfsrdma::client {

Ownership whose_change(const KnownContents& known, const ArrivedAttributes& arrived, OwnChanges* own) {
  Ownership whose{.gaps = own != nullptr && own->gaps(), .contents_change = known.contents_change};
  if (arrived.cause != Cause::kOwn && !known.writing) return whose;
  if (!known.known || known.promised) {
    whose.ours = true;
  } else if (arrived.directory) {
    whose.ours = !arrived.before || *arrived.before == known.contents_change;
  } else if (!arrived.before && arrived.cause == Cause::kOwn) {
    whose.ours = true;
    whose.contents_change = std::max(known.contents_change, arrived.change);
  } else if (own == nullptr) {
    whose.ours = arrived.before.value_or(arrived.change) == known.contents_change;
  } else {
    const uint64_t before = arrived.before.value_or(arrived.change);
    whose.contents_change = own->follow(known.contents_change, before, arrived.change);
    whose.gaps = own->gaps();
    whose.ours = !whose.gaps || (known.writing && !is_open(arrived.cause));
  }
  return whose;
}

namespace {

// The attribute cache accepted the attributes.
void take(Decision& d, const KnownContents& known, const ArrivedAttributes& arrived, bool ours) {
  const bool same = known.known && known.contents_change == arrived.change;
  // Without a delegation the cached data may be old although the change is ours: another client may have
  // changed the file at the same time.
  d.data = same || (ours && known.promised) ? Decision::Data::kConfirmed : Decision::Data::kDropped;
  d.good = same || (ours && known.known);
  d.outdated = !d.good && known.known && !arrived.directory && !arrived.kernel_drops;
  d.mixed = ours && !same && known.known;
  d.names_epoch_ends = arrived.directory && !d.good;
  if (known.known || arrived.directory || is_open(arrived.cause)) {
    // whose_change() has set the value. It may differ from this reply's, because replies arrive out of order.
    const bool followed = ours && known.known && known.open && !arrived.directory && !known.promised;
    if (!followed) d.contents_change = arrived.change;
    d.contents_known = true;
  }
  // Our WRITE under a delegation leaves all permissions as they were.
  d.access_moves = ours && known.promised && arrived.same_rights;
  d.kernel_change_moves = ours && known.kernel_knows && known.kernel_change == known.change;
  // The server clears the set-user-ID bit at a WRITE. The kernel would not fetch the mode again by itself.
  d.kernel_forgets_rights = ours && !arrived.same_rights && known.kernel_knows && known.writing;
  d.kernel_forgets_names = arrived.search_withdrawn;
}

}  // namespace

Decision decide(const KnownContents& known, const ArrivedAttributes& arrived, const Ownership& whose,
                AttributeCache::Update update) {
  Decision d{.contents_known = known.known, .contents_change = whose.contents_change};
  const bool ignored = update == AttributeCache::Update::kIgnored;
  if (ignored) {
    d.good = known.known;
    d.outdated = whose.gaps && !whose.ours;
  } else {
    take(d, known, arrived, whose.ours);
  }
  const uint64_t change = ignored ? known.change : arrived.change;
  const uint64_t kernel_change = d.kernel_change_moves ? arrived.change : known.kernel_change;
  if (is_open(arrived.cause) && known.kernel_knows && kernel_change != change) d.outdated = true;
  return d;
}

}  // namespace nfsrdma::client
