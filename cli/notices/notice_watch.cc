// SPDX-License-Identifier: Apache-2.0
#include "cli/notices/notice_watch.h"

#include <fmt/core.h>

namespace nfsrdma::cli {

bool NoticeWatch::may_say(NoticeKind kind, TimePoint now) {
  std::optional<TimePoint>& said = said_[static_cast<size_t>(kind)];
  if (said && now - *said < kPause) return false;
  said = now;
  return true;
}

std::vector<NoticeKind> NoticeWatch::look(const NoticeInput& input, TimePoint now) {
  std::vector<NoticeKind> out;
  if (input.silent_for >= kSilence) {
    if (!said_silent_ && may_say(NoticeKind::kSilent, now)) {
      said_silent_ = true;
      out.push_back(NoticeKind::kSilent);
    }
  } else if (input.silent_for == Duration::zero() && said_silent_) {
    // A user who was told that the server is silent is also told that it is back.
    said_silent_ = false;
    out.push_back(NoticeKind::kBack);
  }
  // Further errors within the pause belong to the same problem and are not reported.
  if (input.room_errors > before_.room_errors && may_say(NoticeKind::kFull, now))
    out.push_back(NoticeKind::kFull);
  if (input.locks_lost > before_.locks_lost && may_say(NoticeKind::kLocksLost, now))
    out.push_back(NoticeKind::kLocksLost);
  before_ = input;
  return out;
}

Notice notice_of(NoticeKind kind, const std::string& source, const std::string& mount_point) {
  const std::string which = fmt::format("{} ({})", mount_point, source);
  switch (kind) {
    case NoticeKind::kSilent:
      return {kind, "The file server does not answer",
              which + ": programs that use these files wait until it is back. Nothing is lost.", true};
    case NoticeKind::kBack: return {kind, "The file server answers again", which, false};
    case NoticeKind::kFull:
      return {kind, "The file server has no room left",
              which + ": a file could not be saved. Make room there, then save it again.", true};
    case NoticeKind::kLocksLost:
      return {kind, "Locks on files were lost",
              which +
                  ": the server gave them up. Programs that held them get errors; close and open their files "
                  "again.",
              true};
    case NoticeKind::kCount: break;
  }
  return {};
}

}  // namespace nfsrdma::cli
