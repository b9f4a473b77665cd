// SPDX-License-Identifier: Apache-2.0
// Unmounts a mount whose daemon sends nonsense. A mount's owner may run any program on its control socket,
// and root must still be able to unmount. Nothing is mounted, so the kernel's part is done at once.
#include "cli/mount/unmount.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/control/control_protocol.h"
#include "tests/unit/cli/temp_directory.h"
#include "transport/runtime/fd.h"

namespace nfsrdma::cli {
namespace {

class OddDaemon : public testing::Test {
 protected:
  OddDaemon() {
    entry_.id = ~0u;
    entry_.minor = 57;
    entry_.mount_point = temp_.path("mnt");
    entry_.fs_options = "rw,user_id=" + std::to_string(geteuid());
  }

  // Acknowledges the first command ("watch"), sends `answer` to the second and then to the first command, and
  // ends.
  void start(const Json& answer) {
    const auto path = make_control_path(places_, geteuid(), entry_.major, entry_.minor);
    ASSERT_TRUE(path) << path.error().text;
    const Fd listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const auto address = control_address(*path);
    ASSERT_EQ(bind(listener.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address), 0);
    int ready[2];
    ASSERT_EQ(pipe(ready), 0);
    child_ = fork();
    if (child_ == 0) serve(listener, Fd(ready[1]), answer);
    close(ready[1]);
    char byte;
    ASSERT_EQ(read(ready[0], &byte, 1), 1);
    close(ready[0]);
  }
  Outcome<std::string> run(bool force) {
    UnmountOptions options;
    options.force = force;
    options.timeout = std::chrono::seconds(30);
    auto done = unmount(entry_, options, places_);
    int status = 0;
    EXPECT_EQ(waitpid(child_, &status, 0), child_);
    EXPECT_EQ(status, 0) << "it was not asked";
    return done;
  }

 private:
  // Calls listen(2) itself, because the process that listens is the peer of a connection.
  [[noreturn]] static void serve(const Fd& listener, const Fd& ready, const Json& answer) {
    alarm(60);
    if (listen(listener.get(), 4) != 0 || write(ready.get(), "x", 1) != 1) _exit(9);
    const Fd watching = take(listener);
    say(watching, later_notice());
    say(take(listener), success_response(answer));
    say(watching, success_response(answer));
    _exit(0);
  }
  static Fd take(const Fd& listener) {
    Fd connection(accept(listener.get(), nullptr, nullptr));
    for (char c = 0; c != '\n';) {
      if (read(connection.get(), &c, 1) != 1) _exit(9);
    }
    return connection;
  }
  static void say(const Fd& connection, const Json& message) {
    const std::string line = encode_line(message);
    if (send(connection.get(), line.data(), line.size(), MSG_NOSIGNAL) < 0) _exit(9);
  }

  const TempDirectory temp_;
  const ControlPlaces places_{temp_.path("run"), temp_.path(), ""};
  MountEntry entry_;
  pid_t child_ = -1;
};

TEST_F(OddDaemon, AnswersOfOtherTypes_AreNone) {
  start({{"state", 7}, {"unwritten_bytes", "many"}});
  const auto done = run(false);
  ASSERT_TRUE(done) << done.error().text;
  EXPECT_EQ(*done, "");
}

TEST_F(OddDaemon, AnswersOfOtherTypes_DoNotKeepForceOut) {
  start({{"unwritten_bytes", Json::array()}});
  const auto done = run(true);
  ASSERT_TRUE(done) << done.error().text;
  EXPECT_EQ(*done, "");
}

TEST_F(OddDaemon, NumbersBelowZero_AreNone) {
  start({{"unwritten_bytes", -1}});
  const auto done = run(true);
  ASSERT_TRUE(done) << done.error().text;
  EXPECT_EQ(*done, "");
}

TEST_F(OddDaemon, WhatItGaveUp_IsSaid) {
  start({{"unwritten_bytes", 5}});
  const auto done = run(true);
  ASSERT_TRUE(done) << done.error().text;
  EXPECT_NE(done->find("5 bytes were given up"), std::string::npos) << *done;
}

// The owner replaced the socket. Its program accepts the connection, announces a later answer and never sends
// it.
TEST(OthersDaemon, ThatNeverEnds_IsNotWaitedForByRoot) {
  if (geteuid() != 0) GTEST_SKIP() << "only root unmounts what is another's";
  constexpr uid_t kOwner = 65534;
  const TempDirectory temp;
  ASSERT_EQ(chmod(temp.path().c_str(), 0755), 0);
  const ControlPlaces places{temp.path("run"), temp.path(), ""};
  MountEntry entry;
  entry.id = ~0u;
  entry.minor = 57;
  entry.mount_point = temp.path("mnt");
  entry.fs_options = "rw,user_id=65534";
  const std::string directory = control_directories(places, kOwner).back();
  ASSERT_EQ(mkdir(directory.c_str(), 0700), 0);
  ASSERT_EQ(chown(directory.c_str(), kOwner, kOwner), 0);
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    const Fd listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const auto address = control_address(directory + "/" + control_socket_name(entry.major, entry.minor));
    if (setuid(kOwner) != 0 ||
        bind(listener.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address) != 0 ||
        listen(listener.get(), 4) != 0 || write(ready[1], "x", 1) != 1)
      _exit(9);
    const Fd watching(accept(listener.get(), nullptr, nullptr));
    const std::string line = encode_line(later_notice());
    if (write(watching.get(), line.data(), line.size()) < 0) _exit(9);
    listen(listener.get(), 0);
    while (true) pause();
  }
  char byte;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  UnmountOptions options;
  options.others_time = std::chrono::seconds(1);
  const auto done = unmount(entry, options, places);
  ASSERT_FALSE(done);
  EXPECT_NE(done.error().text.find("still waits for the server"), std::string::npos) << done.error().text;
  kill(child, SIGKILL);
  close(ready[0]);
  close(ready[1]);
  waitpid(child, nullptr, 0);
}

}  // namespace
}  // namespace nfsrdma::cli
