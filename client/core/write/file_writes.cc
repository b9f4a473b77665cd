// SPDX-License-Identifier: Apache-2.0
#include "client/core/write/file_writes.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <initializer_list>
#include <utility>

namespace nfsrdma::client {
namespace {

using State = WriteExtent::State;

// A smaller write is worth a copy if it then goes in the same WRITE as its neighbour.
constexpr size_t kCopyBelow = 64u << 10;
constexpr size_t kMaxHeldBytes = 1u << 20;
// With so many WRITEs of a file under way the server is busy, and new data may wait for its neighbours.
constexpr size_t kBusyWrites = 2;

// The front end reads the requests of a stream one after the other into one buffer.
bool follows_in_memory(const WriteExtent& held, const Slice& data) {
  return held.data.buffer.operator->() == data.buffer.operator->() &&
         held.data.bytes.data() + held.data.size() == data.bytes.data();
}

}  // namespace

WriteExtent* FileWrites::joinable(const NewData& data) {
  WriteExtent* held = held_.continued_at(data.offset);
  if (held == nullptr || !(held->account == data.account)) return nullptr;
  const uint64_t end = data.end();
  // The extent may be larger than wsize: a new session can have smaller requests.
  if (std::max(held->end(), end) - held->offset > data.wsize) return nullptr;
  if (end > held->end() && writes_.overlaps(held->end(), end)) return nullptr;
  // A waiting write may overlap it and comes first.
  return waiting_.empty() ? held : nullptr;
}

FileWrites::Joined FileWrites::join(const NewData& data, BufferRef larger) {
  WriteExtent* const held = joinable(data);
  if (held == nullptr) return {};
  const uint64_t end = data.end();
  const size_t before = held->data.size(), size = std::max(held->end(), end) - held->offset;
  if (data.offset == held->end() && follows_in_memory(*held, data.data)) {
    overwrite(data.offset, end);
    held->data.bytes = {held->data.bytes.data(), size};
    return joined(*held, size - before);
  }
  if (data.data.size() >= kCopyBelow) return {};
  if (!held->growing || held->data.buffer->capacity() < size) {
    const size_t most = std::min<size_t>(data.wsize, kMaxHeldBytes);
    if (size > most) return {};
    // The buffer grows with the data: writes scattered over a file take little more memory than their data.
    if (!larger || larger->capacity() < size)
      return {Joined::Result::kNeedsRoom, std::min(most, 2 * std::bit_ceil(size)), {}};
    std::copy(held->data.bytes.begin(), held->data.bytes.end(), larger.bytes().begin());
    held->data.buffer = std::move(larger);
    held->growing = true;
  }
  overwrite(data.offset, end);
  held->data.bytes = held->data.buffer.bytes().first(size);
  std::copy(data.data.bytes.begin(), data.data.bytes.end(),
            held->data.bytes.begin() + static_cast<std::ptrdiff_t>(data.offset - held->offset));
  return joined(*held, size - before);
}

FileWrites::Joined FileWrites::joined(WriteExtent& held, size_t bytes) {
  held_.touch(held);
  under_way_.erase(under_way_.find(held.serial));
  held.serial = next_serial_++;
  under_way_.insert(held.serial);
  unanswered_bytes_ += bytes;
  Joined result{Joined::Result::kJoined, 0, {}};
  // A small write that large ones have joined is held no longer than a large one.
  if (!held.growing && held.data.size() >= kCopyBelow) {
    held.until_answer = true;
    if (sent() < kBusyWrites) result.send = take_held_until_answer();
  }
  return result;
}

FileWrites::Held FileWrites::hold(const NewData& data, TimePoint now) {
  const uint64_t offset = data.offset, end = data.end();
  const bool large = data.data.size() >= kCopyBelow;
  Held result;
  // A large write belongs to a stream, so other held data of the file is sent first. A small one may be an
  // append to another place of the file, so only its neighbours are sent: they cannot grow any more.
  result.send = take_if([&](const WriteExtent& held) {
    const bool neighbour = held.offset <= end && offset <= held.end();
    return large || neighbour || (held_.full() && &held == &held_.oldest());
  });
  if (held_.full() || !waiting_.empty() || writes_.overlaps(offset, end)) return result;
  if (large && (!held_.empty() || sent() < kBusyWrites)) return result;
  WriteExtent extent;
  extent.offset = offset;
  extent.data = data.data;
  extent.account = data.account;
  extent.since = now;
  extent.until_answer = large;
  held_.hold(add(std::move(extent), State::kHeld, std::nullopt)->second);
  result.held = true;
  return result;
}

bool FileWrites::must_wait(const Place& place) const {
  const std::list<Waiting>::const_iterator mine = place.waiting ? *place.waiting : waiting_.end();
  return std::any_of(waiting_.begin(), mine, [&](const Waiting& earlier) {
    return earlier.offset < place.end && place.offset < earlier.end;
  });
}

FileWrites::Admission FileWrites::admit(Place& place, WriteExtent& extent) {
  const Extent in_the_way = writes_.overlapping(extent.offset, extent.end());
  const bool others_first = must_wait(place);
  if (!others_first && in_the_way == writes_.end()) {
    const auto serial = place.waiting ? std::optional((*place.waiting)->serial) : std::nullopt;
    return {Gate::kOpen, {}, add(std::move(extent), State::kSent, serial)};
  }
  if (!place.waiting) {
    place.waiting = waiting_.insert(waiting_.end(), Waiting{place.offset, place.end, next_serial_});
    under_way_.insert(next_serial_++);
  }
  if (others_first || !held_.holds(in_the_way->second)) return {Gate::kWait, {}, {}};
  return {Gate::kAgain, take_held(), {}};
}

void FileWrites::leave(Place& place) {
  if (!place.waiting) return;
  under_way_.erase(under_way_.find((*place.waiting)->serial));
  waiting_.erase(*place.waiting);
  place.waiting.reset();
  changed_.notify_all();
}

FileWrites::Extent FileWrites::add(WriteExtent extent, State state, std::optional<uint64_t> serial) {
  extent.state.enter(state);
  extent.serial = serial ? *serial : next_serial_++;
  under_way_.insert(extent.serial);
  unanswered_bytes_ += extent.data.size();
  overwrite(extent.offset, extent.end());
  return writes_.insert(std::move(extent));
}

void FileWrites::overwrite(uint64_t offset, uint64_t end) {
  unstable_bytes_ -= unstable_.cut_out(offset, end);
  committing_bytes_ -= committing_.cut_out(offset, end);
}

template <class Which>
FileWrites::Sends FileWrites::take_if(const Which& which) {
  Sends sends;
  for (WriteExtent* held : held_.take_if(which)) {
    held->state.enter(State::kSent);
    sends.add(writes_.overlapping(held->offset, held->end()));
  }
  return sends;
}

FileWrites::Sends FileWrites::take_held() {
  return take_if([](const WriteExtent&) { return true; });
}

FileWrites::Sends FileWrites::take_held_since(TimePoint before) {
  return take_if([&](const WriteExtent& held) { return held.since <= before; });
}

FileWrites::Sends FileWrites::take_held_until_answer() {
  return take_if([](const WriteExtent& held) { return held.until_answer; });
}

std::optional<FileWrites::Extent> FileWrites::take_only(const rpc::Credential* user) {
  if (writes_.size() != 1 || held_.empty() || !waiting_.empty() || !unstable_.empty()) return std::nullopt;
  WriteExtent& only = held_.oldest();
  const bool together =
      user == nullptr ||
      (committing_epoch_ == 0 && user->same_user(*only.account.credential) && only.data.size() <= kCopyBelow);
  if (!together) return std::nullopt;
  held_ = {};
  only.state.enter(State::kSent);
  return writes_.begin();
}

std::optional<FileWrites::Extent> FileWrites::take_whole_file() {
  if (held_.empty() || held_.oldest().offset != 0) return std::nullopt;
  return take_only();
}

FileWrites::Answered FileWrites::answered(Extent extent, Result<Written> reply, uint64_t epoch,
                                          TimePoint now) {
  Answered result;
  const size_t size = extent->second.data.size();
  under_way_.erase(under_way_.find(extent->second.serial));
  unanswered_bytes_ -= size;
  // A server must not answer FILE_SYNC4 with less (RFC 8881 section 18.32.3). One that does gets a COMMIT.
  if (reply && reply->committed != nfs4::FILE_SYNC4) {
    extent->second.verifier = reply->verifier;
    if (unstable_.empty()) unstable_since_ = now;
    unstable_epoch_ = unstable_.empty() ? epoch : std::min(unstable_epoch_, epoch);
    extent->second.state.enter(State::kUnstable);
    unstable_.take(writes_, extent);
    unstable_bytes_ += size;
  } else {
    result.freed.take(writes_, extent);
    if (!reply) result.refused = refuse(std::move(reply.error()), size);
  }
  result.send = take_held_until_answer();
  changed_.notify_all();
  return result;
}

std::optional<FileWrites::Commit> FileWrites::begin_commit() {
  if (unstable_.empty()) return std::nullopt;
  NFSRDMA_CHECK(committing_.empty());
  committing_.swap(unstable_);
  for (auto& [offset, extent] : committing_) extent.state.enter(State::kCommitting);
  committing_bytes_ = std::exchange(unstable_bytes_, 0);
  committing_epoch_ = unstable_epoch_;
  return Commit{committing_.begin()->second.account.credential, committing_.begin()->first,
                committing_.end_offset()};
}

FileWrites::Committed FileWrites::committed(Result<nfs4::verifier4> reply) {
  Committed result;
  if (reply) {
    committing_.erase_if([&](const WriteExtent& e) { return e.verifier == *reply; });
    committing_bytes_ = committing_.bytes();
    for (auto& [offset, extent] : committing_) extent.state.enter(State::kLost);
    result.lost = !committing_.empty();
  } else {
    committing_.clear();
    result.refused = refuse(std::move(reply.error()), std::exchange(committing_bytes_, 0));
  }
  return result;
}

std::optional<FileWrites::Extent> FileWrites::take_lost() {
  if (committing_.empty()) return std::nullopt;
  const Extent extent = writes_.take(committing_, committing_.begin());
  const size_t size = extent->second.data.size();
  extent->second.state.enter(State::kSent);
  extent->second.serial = next_serial_++;
  under_way_.insert(extent->second.serial);
  committing_bytes_ -= size;
  unanswered_bytes_ += size;
  return extent;
}

void FileWrites::end_commit() {
  committing_epoch_ = 0;
  changed_.notify_all();
}

std::optional<uint64_t> FileWrites::give_up_commit() {
  if (unstable_.empty()) return std::nullopt;
  unstable_.clear();
  return refuse(system_error(EIO, "COMMIT", "the server's write verifier is another one each time"),
                std::exchange(unstable_bytes_, 0));
}

bool FileWrites::begin_background_commit() {
  return !std::exchange(background_commit_, true);
}

void FileWrites::end_background_commit() {
  background_commit_ = false;
  changed_.notify_all();
}

FileWrites::Clearance FileWrites::clearance(uint64_t offset, uint64_t end) {
  const Extent in_the_way = writes_.overlapping(offset, end);
  if (in_the_way == writes_.end()) return {};
  if (!held_.holds(in_the_way->second)) return {Gate::kWait, {}};
  return {Gate::kAgain, take_held()};
}

FileWrites::Restored FileWrites::restored(uint64_t epoch) const {
  if (committing_epoch_ != 0 && committing_epoch_ != epoch) return Restored::kWait;
  if (!unstable_.empty() && unstable_epoch_ != epoch) return Restored::kCommit;
  return Restored::kYes;
}

uint64_t FileWrites::written_end(uint64_t epoch) const {
  uint64_t end = writes_.end_offset();
  if (unstable_epoch_ != epoch) end = std::max(end, unstable_.end_offset());
  if (committing_epoch_ != epoch) end = std::max(end, committing_.end_offset());
  return end;
}

uint64_t FileWrites::refuse(Error error, uint64_t bytes) {
  latest_error_ = std::move(error);
  ++errors_;
  return bytes;
}

void FileWrites::each(const std::function<void(const WriteExtent&)>& visit) const {
  for (const ExtentMap* map : {&writes_, &unstable_, &committing_}) {
    for (const auto& [offset, extent] : *map) visit(extent);
  }
}

bool FileWrites::consistent() const {
  ExtentMap all;
  std::multiset<uint64_t> serials;
  bool disjoint = true;
  each([&](const WriteExtent& extent) {
    disjoint = disjoint && extent.data.size() != 0 && !all.overlaps(extent.offset, extent.end());
    WriteExtent copy;
    copy.offset = extent.offset;
    copy.data = extent.data;
    all.insert(std::move(copy));
  });
  const auto all_are = [](const ExtentMap& map, std::initializer_list<State> states) {
    return std::all_of(map.begin(), map.end(), [&](const auto& entry) {
      return std::find(states.begin(), states.end(), entry.second.state.get()) != states.end();
    });
  };
  const bool placed = all_are(writes_, {State::kHeld, State::kSent}) &&
                      all_are(unstable_, {State::kUnstable}) &&
                      all_are(committing_, {State::kCommitting, State::kLost});
  size_t held = 0;
  bool all_held = true;
  for (const auto& [offset, extent] : writes_) {
    serials.insert(extent.serial);
    held += held_.holds(extent) ? 1 : 0;
    all_held = all_held && held_.holds(extent) == (extent.state.get() == State::kHeld);
  }
  for (const Waiting& waiting : waiting_) serials.insert(waiting.serial);
  return disjoint && placed && all_held && held == held_.size() && serials == under_way_ &&
         unanswered_bytes_ == writes_.bytes() && unstable_bytes_ == unstable_.bytes() &&
         committing_bytes_ == committing_.bytes() && (committing_epoch_ != 0 || committing_.empty());
}

}  // namespace nfsrdma::client
