// SPDX-License-Identifier: Apache-2.0
#include "cli/notices/notice_watch.h"

#include <gtest/gtest.h>

namespace nfsrdma::cli {
namespace {

using namespace std::chrono_literals;
using Kinds = std::vector<NoticeKind>;

const TimePoint kStart = TimePoint() + 1h;

TEST(NoticeWatch, SilenceOfFifteenSeconds_IsSaidOnce) {
  NoticeWatch watch;
  EXPECT_EQ(watch.look({14s}, kStart), Kinds{});
  EXPECT_EQ(watch.look({15s}, kStart + 1s), Kinds{NoticeKind::kSilent});
  EXPECT_EQ(watch.look({300s}, kStart + 300s), Kinds{});
}

TEST(NoticeWatch, Return_IsSaidToWhomTheSilenceWas) {
  NoticeWatch watch;
  EXPECT_EQ(watch.look({5s}, kStart), Kinds{});
  EXPECT_EQ(watch.look({}, kStart), Kinds{});
  watch.look({20s}, kStart + 1s);
  EXPECT_EQ(watch.look({3s}, kStart + 2s), Kinds{}) << "another call waits";
  EXPECT_EQ(watch.look({}, kStart + 3s), Kinds{NoticeKind::kBack});
  EXPECT_EQ(watch.look({}, kStart + 4s), Kinds{});
}

TEST(NoticeWatch, AServerThatComesAndGoes_IsSaidOnceAMinute) {
  NoticeWatch watch;
  unsigned said = 0;
  for (auto t = 0s; t < 600s; t += 5s) {
    const bool silent = t / 20s % 2 == 0;
    for (const NoticeKind kind : watch.look({silent ? Duration(16s) : Duration(0s)}, kStart + t))
      said += kind == NoticeKind::kSilent ? 1 : 0;
  }
  EXPECT_GE(said, 5u);
  EXPECT_LE(said, 10u);
}

TEST(NoticeWatch, WantOfRoomAndLostLocks_AreSaidAsTheyGrow) {
  NoticeWatch watch;
  EXPECT_EQ(watch.look({{}, 1, 0}, kStart), Kinds{NoticeKind::kFull});
  EXPECT_EQ(watch.look({{}, 1, 0}, kStart + 100s), Kinds{});
  EXPECT_EQ(watch.look({{}, 1, 2}, kStart + 101s), Kinds{NoticeKind::kLocksLost});
  EXPECT_EQ(watch.look({{}, 5, 2}, kStart + 102s), Kinds{NoticeKind::kFull});
  EXPECT_EQ(watch.look({{}, 9, 2}, kStart + 103s), Kinds{}) << "the same trouble";
  EXPECT_EQ(watch.look({{}, 10, 2}, kStart + 163s), Kinds{NoticeKind::kFull});
}

TEST(NoticeWatch, EveryNotice_SaysWhichMount) {
  for (uint8_t kind = 0; kind < static_cast<uint8_t>(NoticeKind::kCount); ++kind) {
    const Notice notice = notice_of(static_cast<NoticeKind>(kind), "filer:/export", "/home/anna/files");
    EXPECT_FALSE(notice.summary.empty());
    EXPECT_NE(notice.body.find("/home/anna/files (filer:/export)"), std::string::npos);
  }
}

}  // namespace
}  // namespace nfsrdma::cli
