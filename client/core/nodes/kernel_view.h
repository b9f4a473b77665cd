// SPDX-License-Identifier: Apache-2.0
// KernelState: what the kernel may have cached for one object. KernelView: invalidates what the kernel has
// cached, through the front end.
//
// The kernel answers applications from its cache, without asking this program. So every event that makes
// cached state old must invalidate it, in one of these ways. "data here" is the data cache (decide() is in
// attribute_decision.h); "waits" says whether the request waits until the kernel has dropped its pages:
//
//   cause                                              data here  the kernel                        waits
//   attributes show another client's change, open(2)   decide()   drop_counted()                    yes
//   the same, not at open(2)                           decide()   drop_counted(), spawned           no
//   WRITE or COMMIT failed; delegation or lock lost    dropped    invalidate_data()                 no
//   lock granted, and the file may have changed        dropped    drop_data()                       yes
//   delegation returned, pages may be written or old   dropped    drop_data(), for part of a lease  bounded
//   delegation returned, otherwise                     stays      invalidate_attributes()           no
//   the machine was suspended                          expired    invalidate_attributes(), _names() no
//
// Never wait inside a request that holds the file's pages in the kernel (READ, WRITE): the kernel waits for
// that request before it drops them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "client/api/filesystem.h"

namespace nfsrdma::client {

class CachedNode;

// For one object. A value inside a Node, guarded by its mutex. Pure.
class KernelState {
 public:
  // --- attributes ---
  // The kernel gets attributes that it may cache for `ttl`.
  void told(const Attributes& attributes, Duration ttl) {
    knows_ = ttl > Duration::zero();
    change_ = attributes.change;
    size_ = attributes.size;
    fingerprint_ = fingerprint_of(attributes);
  }
  // True: the kernel may have cached attributes. change(): their change attribute.
  bool knows() const { return knows_; }
  uint64_t change() const { return change_; }
  bool knows_other_than(uint64_t change) const { return knows_ && change_ != change; }
  // We changed the object for the kernel, so what it has cached belongs to the new change attribute.
  void follow(uint64_t change) { change_ = change; }
  // True: the kernel drops its pages by itself when it gets these attributes (FUSE_AUTO_INVAL_DATA: size or
  // mtime differ). If only the change attribute differs, we must invalidate the pages.
  bool drops_pages_for(const Attributes& attributes) const {
    return fingerprint_ != fingerprint_of(attributes);
  }
  // The file size as the kernel knows it: the size it got last, and its own writes since.
  uint64_t size() const { return size_; }
  void wrote_to(uint64_t end) { size_ = std::max(size_, end); }

  // --- pages ---
  // An invalidation of the object's pages and attributes begins (KernelView::drop_counted()).
  void drop_begins() {
    knows_ = false;
    ++drops_;
  }
  void drop_ended() { --drops_; }
  // True: an invalidation is in progress. Until it ends, no open may keep the pages.
  bool dropping() const { return drops_ != 0; }

  // --- a directory's listing (FOPEN_CACHE_DIR) ---
  // The kernel makes one cached listing from the replies to all its readers. The listing is whole if it
  // belongs to one change attribute and a reader reached its end.
  void listing_begins(uint64_t change) {
    if (listing_ == Listing::kNone) {
      listing_ = Listing::kPart;
      listing_change_ = change;
    } else if (listing_change_ != change) {
      listing_ = Listing::kPart;
    }
  }
  void listing_ends(uint64_t change) {
    if (listing_ != Listing::kNone) listing_ = listing_change_ == change ? Listing::kWhole : Listing::kPart;
  }
  bool has_listing() const { return listing_ == Listing::kWhole; }
  bool has_listing_of(uint64_t change) const { return has_listing() && listing_change_ == change; }
  void drop_listing() { listing_ = Listing::kNone; }

 private:
  enum class Listing : uint8_t {
    kNone,   // nothing
    kPart,   // some entries, perhaps of two listings
    kWhole,  // every entry of the listing of listing_change_, and no other
  };
  // A hash of the attributes whose change makes the kernel drop its pages by itself.
  static uint32_t fingerprint_of(const Attributes& a) {
    const auto nanoseconds =
        static_cast<uint64_t>(a.mtime.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(a.mtime.tv_nsec);
    return static_cast<uint32_t>((nanoseconds * 31 + a.size) * 0x9e3779b97f4a7c15 >> 32);
  }

  uint64_t change_ = 0;
  uint64_t size_ = 0;
  uint64_t listing_change_ = 0;
  uint32_t fingerprint_ = 0;
  uint32_t drops_ = 0;
  bool knows_ = false;
  Listing listing_ = Listing::kNone;
};

// One per mount. The only user of the FrontEnd. Before begin() the kernel has cached nothing, and nothing is
// invalidated. Any loop. It has no lock; call it without holding any.
class KernelView {
 public:
  // Call it before the first request. `front_end` outlives this.
  void begin(FrontEnd* front_end) { front_end_ = front_end; }

  // Invalidates pages and attributes, without waiting.
  void invalidate_data(NodeRef node) const {
    if (front_end_ != nullptr) front_end_->invalidate_data(std::move(node));
  }
  // The same; returns when the kernel has dropped them.
  Task<> drop_data(NodeRef node) const;
  // drop_data(), after KernelState::drop_begins(); ends with drop_ended().
  Task<> drop_counted(NodeRef node) const;
  void invalidate_attributes(NodeRef node) const {
    if (front_end_ != nullptr) front_end_->invalidate_attributes(std::move(node));
  }
  void invalidate_name(NodeRef directory, std::string name) const {
    if (front_end_ != nullptr) front_end_->invalidate_entry(std::move(directory), std::move(name));
  }
  void invalidate_names(const NodeRef& directory, std::vector<std::string> names) const {
    for (std::string& name : names) invalidate_name(directory, std::move(name));
  }

 private:
  FrontEnd* front_end_ = nullptr;
};

}  // namespace nfsrdma::client
