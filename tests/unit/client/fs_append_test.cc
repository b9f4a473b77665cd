// O_APPEND: at the file's end, also where the kernel knows an older one (RFC 8881 sections 10.3.1, 10.3.2).
#include "tests/unit/client/support/test_mount.h"

namespace nfsrdma::test {
namespace {

using client::LockType;

class AppendLoops : public testing::TestWithParam<unsigned> {
 protected:
  std::unique_ptr<filer::Server> server = start_filer();
  TestMount mount{*server, TestMount::Settings{.loops = GetParam()}};
  TestMount other{*server, TestMount::Settings{.loops = GetParam()}};

  // As the kernel sends it that believes the file to end at `end`.
  int append(const client::OpenFileRef& file, uint64_t end, std::string_view text, bool direct = false) {
    const Slice data = mount.memory(text.size());
    std::copy(text.begin(), text.end(), reinterpret_cast<char*>(data.bytes.data()));
    client::RequestContext ctx = mount.user();
    ctx.append = true;
    ctx.direct = direct;
    return errno_of(mount.run(mount.fs().write(std::move(ctx), file, end, data)));
  }
  void other_appends(uint64_t at, std::string_view text) {
    const auto file = other.open("file", O_WRONLY);
    ASSERT_EQ(other.write(file, at, text), 0);
    ASSERT_EQ(other.close(file), 0);
  }
};

// "the client ... declares the cached data (as well as the cached attributes) as invalid": it is only here
// that the OPEN has shown the new end.
TEST_P(AppendLoops, BehindWhatAnotherClientHasAppended_AfterAnOpen) {
  ASSERT_EQ(mount.write_file("file", "aaaa\n"), 0);
  other_appends(5, "bbbb\n");
  const auto file = mount.open("file", O_WRONLY | O_APPEND);
  const unsigned dropped = mount.front_end.data(mount.node("file"));
  EXPECT_EQ(append(file, 5, "cccc\n"), 0);
  EXPECT_GT(mount.front_end.data(mount.node("file")), dropped) << "the kernel has it where it said";
  EXPECT_EQ(append(file, 10, "dddd\n"), 0) << "where the kernel thinks that it ends now";
  EXPECT_EQ(mount.close(file), 0);
  EXPECT_EQ(server->read_file("/export/file"), "aaaa\nbbbb\ncccc\ndddd\n");
}

TEST_P(AppendLoops, BehindWhatAnotherClientHasAppended_UnderALock) {
  ASSERT_EQ(mount.write_file("file", "aaaa\n"), 0);
  const auto file = mount.open("file", O_WRONLY | O_APPEND);
  other_appends(5, "bbbb\n");
  ASSERT_EQ(mount.lock(file, LockType::kWrite), 0);
  EXPECT_EQ(append(file, 5, "cccc\n"), 0);
  ASSERT_EQ(mount.lock(file, LockType::kUnlock), 0);
  EXPECT_EQ(server->read_file("/export/file"), "aaaa\nbbbb\ncccc\n");
  EXPECT_EQ(mount.close(file), 0);
}

TEST_P(AppendLoops, ToAFileThatAnotherClientHasTruncated_LeavesNoHole) {
  ASSERT_EQ(mount.write_file("file", "aaaaaaaaaa"), 0);
  const auto elsewhere = other.open("file", O_WRONLY);
  client::SetAttributes empty;
  empty.size = 0;
  ASSERT_TRUE(other.run(other.fs().setattr(other.user(), other.node("file"), empty, elsewhere)));
  ASSERT_EQ(other.close(elsewhere), 0);
  const auto file = mount.open("file", O_WRONLY | O_APPEND);
  EXPECT_EQ(append(file, 10, "new"), 0);
  EXPECT_EQ(mount.close(file), 0);
  EXPECT_EQ(server->read_file("/export/file"), "new");
}

// Nothing is asked while the kernel's end is the file's: whatever of it is held, under way, or uncommitted.
TEST_P(AppendLoops, AloneWithTheFile_NothingIsAsked) {
  const auto file = mount.create("file", O_WRONLY | O_APPEND);
  const uint64_t asked = mount.requests("GETATTR");
  std::string text;
  for (int n = 0; n < 300; ++n) {
    const std::string line(n % 10 == 0 ? 70'000 : 100, static_cast<char>('a' + n % 26));
    ASSERT_EQ(append(file, text.size(), line, n % 50 == 7), 0);
    text += line;
    if (n % 100 == 50) {
      ASSERT_EQ(mount.fsync(file), 0);
    }
  }
  EXPECT_EQ(mount.requests("GETATTR"), asked);
  EXPECT_EQ(mount.close(file), 0);
  EXPECT_EQ(server->read_file("/export/file"), text);
}

INSTANTIATE_TEST_SUITE_P(Loops, AppendLoops, testing::Values(1u, 4u));

}  // namespace
}  // namespace nfsrdma::test
