// SPDX-License-Identifier: Apache-2.0
// What the kernel has been told of an object and may still believe: KernelState, of one object; and
// KernelView, which takes such things back, through the front end.
//
// The kernel answers applications from what it was told without asking this program. So whatever makes an
// answer old takes it back here, in one of these ways:
//
//   cause                                              data here  the kernel                        waits
//   attributes show another client's change, open(2)   by         drop_counted()                    yes
//   the same, for another reason                       decide()   drop_counted(), spawned           no
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

#include "client/filesystem.h"

namespace nfsrdma::client {

class CachedNode;

// Of one object. A value inside a Node, guarded by its mutex. Pure.
class KernelState {
 public:
  // --- attributes ---
  // The kernel is given attributes that it may believe for `ttl`.
  void told(const Attributes& attributes, Duration ttl) {
    knows_ = ttl > Duration::zero();
    change_ = attributes.change;
    size_ = attributes.size;
    fingerprint_ = fingerprint_of(attributes);
  }
  // The kernel may believe attributes; those of this change attribute.
  bool knows() const { return knows_; }
  uint64_t change() const { return change_; }
  bool knows_other_than(uint64_t change) const { return knows_ && change_ != change; }
  // A change of ours: the kernel made it, so it knows the object under the new change attribute.
  void follow(uint64_t change) { change_ = change; }
  // The kernel drops its pages by itself when it sees these attributes (FUSE_AUTO_INVAL_DATA: size or mtime
  // moved). Where both attributes differ and neither does, it is told.
  bool drops_pages_for(const Attributes& attributes) const {
    return fingerprint_ != fingerprint_of(attributes);
  }
  // The size that the kernel believes: what it was told, and what was written through it since.
  uint64_t size() const { return size_; }
  void wrote_to(uint64_t end) { size_ = std::max(size_, end); }

  // --- pages ---
  // The kernel is about to be told to drop the object's pages and attributes (KernelView::drop_counted()).
  void drop_begins() {
    knows_ = false;
    ++drops_;
  }
  void drop_ended() { --drops_; }
  // While it is being told, nobody's open may keep the pages.
  bool dropping() const { return drops_ != 0; }

  // --- a directory's listing (FOPEN_CACHE_DIR) ---
  // The kernel makes one cached listing of what its readers are given. It is whole when one reader has come
  // to the end of the listing of one change attribute.
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
  // Of what makes the kernel drop pages by itself.
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

// Of a mount. The only user of the FrontEnd. Before begin() the kernel knows nothing, and nothing is taken
// back. Any loop; no lock of its own, none may be held.
class KernelView {
 public:
  // `front_end` outlives this. Before the first request.
  void begin(FrontEnd* front_end) { front_end_ = front_end; }

  // Pages and attributes; without waiting.
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
