// SPDX-License-Identifier: Apache-2.0
// Decides from the client's counters when to notify a desktop user about one of their mounts, and with which
// notice.
//
// Pure: the caller provides the counters and the time every few seconds. Each kind of notice is rate limited.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "transport/runtime/loop.h"

namespace nfsrdma::cli {

enum class NoticeKind : uint8_t {
  kSilent,     // the server does not answer
  kBack,       // the server answers again
  kFull,       // written data was refused because the server is full; close or fsync report it
  kLocksLost,  // to another client, or during a server restart
  kCount,
};

struct NoticeInput {
  Duration silent_for{};     // age of the oldest unanswered call; zero: the server answers
  uint64_t room_errors = 0;  // counters since the mount
  uint64_t locks_lost = 0;
};

class NoticeWatch {
 public:
  static constexpr Duration kSilence = std::chrono::seconds(15);
  // Shortest time between two notices of one kind, also if a server comes and goes.
  static constexpr Duration kPause = std::chrono::seconds(60);

  std::vector<NoticeKind> look(const NoticeInput& input, TimePoint now);

 private:
  bool may_say(NoticeKind kind, TimePoint now);

  bool said_silent_ = false;
  NoticeInput before_;
  std::array<std::optional<TimePoint>, static_cast<size_t>(NoticeKind::kCount)> said_;
};

struct Notice {
  NoticeKind kind = NoticeKind::kSilent;
  std::string summary, body;
  bool urgent = false;
};
// The text of a notice, about the mount of `source` on `mount_point`.
Notice notice_of(NoticeKind kind, const std::string& source, const std::string& mount_point);

}  // namespace nfsrdma::cli
