// SPDX-License-Identifier: Apache-2.0
#include "client/core/attributes/own_changes.h"

#include <algorithm>

namespace nfsrdma::client {
namespace {

// No span reaches this value: the gap stays open.
constexpr uint64_t kNever = UINT64_MAX;

}  // namespace

void OwnChanges::add(Span span) {
  const auto from = std::find_if(apart_.begin(), apart_.end(), [&](Span s) { return s.last >= span.first; });
  auto to = from;
  for (; to != apart_.end() && to->first <= span.last; ++to) {
    span.first = std::min(span.first, to->first);
    span.last = std::max(span.last, to->last);
  }
  apart_.insert(apart_.erase(from, to), span);
  if (apart_.size() > kMostApart) apart_ = {{kNever, kNever}};
}

uint64_t OwnChanges::follow(uint64_t known, uint64_t before, uint64_t after) {
  // Section 5.8.1.4: a change attribute need not grow. If it does not, only operations that follow one
  // another directly can be followed.
  if (before == known) {
    known = after;
  } else if (before > after) {
    add({kNever, kNever});
  } else if (before < known) {
    known = std::max(known, after);
  } else {
    add({before, after});
  }
  while (!apart_.empty() && apart_.front().first <= known) {
    known = std::max(known, apart_.front().last);
    apart_.erase(apart_.begin());
  }
  return known;
}

}  // namespace nfsrdma::client
