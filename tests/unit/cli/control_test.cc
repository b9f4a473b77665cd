// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <asio/executor_work_guard.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <cstring>
#include <future>
#include <thread>

#include "cli/control/control_client.h"
#include "cli/control/control_path.h"
#include "cli/control/control_server.h"
#include "tests/unit/cli/temp_directory.h"
#include "tests/unit/transport/support/eventually.h"

namespace nfsrdma::cli {
namespace {

using namespace std::chrono_literals;

Json said(std::string text) {
  return {{"said", std::move(text)}};
}

// A server on a loop with its own thread; start() defines its handlers. "later" is answered by the test.
class ControlServerTest : public testing::Test {
 protected:
  template <class F>
  auto on_loop(F f) {
    std::packaged_task<decltype(f())()> task(std::move(f));
    auto result = task.get_future();
    asio::post(context_, [&task] { task(); });
    return result.get();
  }

  void start(std::chrono::milliseconds io_time = 10s) {
    ControlServer::Handlers handlers;
    handlers["echo"] = [](const Json& request, ControlServer::Reply reply) { reply(Json(request)); };
    handlers["fail"] = [](const Json&, ControlServer::Reply reply) {
      reply(refuse(ToolExit::kFailed, "no luck"));
    };
    handlers["later"] = [this](const Json&, ControlServer::Reply reply) {
      waiting_.push_back(std::move(reply));
    };
    handlers["watch"] = [this](const Json&, ControlServer::Reply reply) { watchers_.add(std::move(reply)); };
    handlers["drop"] = [](const Json&, ControlServer::Reply) {};
    handlers["twice"] = [](const Json&, ControlServer::Reply reply) {
      reply(Json(1));
      reply(Json(2));
    };
    handlers["big"] = [](const Json&, ControlServer::Reply reply) { reply(said(std::string(4 << 20, 'x'))); };
    handlers["close"] = [this](const Json&, ControlServer::Reply reply) {
      server_->close();
      reply(said("closed"));
    };
    auto server = ControlServer::create(context_, path_, std::move(handlers), io_time);
    ASSERT_TRUE(server) << server.error().text;
    server_ = *std::move(server);
    thread_ = std::thread([this] { context_.run(); });
  }

  void TearDown() override {
    if (!thread_.joinable()) return;
    on_loop([this] {
      waiting_.clear();
      server_->close();
    });
    work_.reset();
    thread_.join();
    EXPECT_EQ(access(path_.c_str(), F_OK), -1) << "the socket file was left behind";
  }

  Outcome<ControlClient> client() { return ControlClient::connect(path_, geteuid(), deadline_in(10s)); }
  Outcome<Json> ask(const Json& request) {
    auto c = client();
    if (!c) return tl::unexpected(c.error());
    return c->ask(request, deadline_in(10s));
  }

  // Sends the bytes unchanged. Returns everything that the server sends until it closes the connection.
  std::string raw(std::string_view bytes) {
    const Fd fd(socket(AF_UNIX, SOCK_STREAM, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, path_.c_str());
    EXPECT_EQ(connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    size_t sent = 0;
    while (sent < bytes.size()) {
      const ssize_t n = send(fd.get(), bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (n <= 0) break;
      sent += static_cast<size_t>(n);
    }
    shutdown(fd.get(), SHUT_WR);
    std::string answer;
    char buffer[4096];
    for (ssize_t n; (n = recv(fd.get(), buffer, sizeof buffer, 0)) > 0;)
      answer.append(buffer, static_cast<size_t>(n));
    return answer;
  }

  // Waits until the loop has noticed closed connections.
  void wait_for_connections(size_t wanted) {
    EXPECT_TRUE(
        test::eventually([&] { return on_loop([this] { return server_->connections(); }) == wanted; }));
  }

  TempDirectory temp_;
  std::string path_ = temp_.path("c.sock");
  asio::io_context context_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_ = asio::make_work_guard(context_);
  std::vector<ControlServer::Reply> waiting_;
  ControlServer::LateReplies watchers_;
  std::unique_ptr<ControlServer> server_;
  std::thread thread_;
};

TEST_F(ControlServerTest, Request_IsAnswered) {
  start();
  const auto answer = ask({{"command", "echo"}, {"x", 5}});
  ASSERT_TRUE(answer) << answer.error().text;
  EXPECT_EQ((*answer)["x"], 5);
}

TEST_F(ControlServerTest, SocketFile_IsPrivate) {
  start();
  struct stat st {};
  ASSERT_EQ(stat(path_.c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 07777, 0600u);
}

TEST_F(ControlServerTest, Peer_IsTheServersProcess) {
  start();
  EXPECT_EQ(client()->peer(), getpid());
}

TEST_F(ControlServerTest, FailureOfAHandler_ReachesTheTool) {
  start();
  const auto answer = ask({{"command", "fail"}});
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().text, "no luck");
}

TEST_F(ControlServerTest, UnknownCommand_IsNamed) {
  start();
  EXPECT_EQ(ask({{"command", "nonsense"}}).error().text, "unknown command nonsense");
}

TEST_F(ControlServerTest, MalformedRequest_IsAnsweredWithAnError) {
  start();
  for (const char* line : {"\n", "{\n", "[]\n", "5\n", "null\n", "{}\n", "{\"command\":5}\n",
                           "{\"command\":null}\n", "\xff\xfe\n", "{\"command\":\"\xff\"}\n"}) {
    const std::string answer = raw(line);
    EXPECT_NE(answer.find("\"ok\":false"), std::string::npos) << line << " -> " << answer;
  }
  EXPECT_TRUE(ask({{"command", "echo"}}));
}

TEST_F(ControlServerTest, DeepNesting_IsHarmless) {
  start();
  EXPECT_NE(raw(std::string(4000, '[') + "\n").find("false"), std::string::npos);
  std::string deep = "{\"command\":\"echo\",\"x\":" + std::string(1900, '[') + std::string(1900, ']') + "}\n";
  EXPECT_NE(raw(deep).find("\"ok\":true"), std::string::npos);
}

TEST_F(ControlServerTest, OversizedOrUnfinishedRequest_CostsItsConnection) {
  start();
  EXPECT_EQ(raw(std::string(1 << 20, 'x')), "");
  EXPECT_EQ(raw("{\"command\":\"echo\"}"), "");
  EXPECT_EQ(raw(""), "");
  wait_for_connections(0);
  EXPECT_TRUE(ask({{"command", "echo"}}));
}

TEST_F(ControlServerTest, SilentConnection_IsEndedAfterItsTime) {
  start(20ms);
  auto silent = client();
  ASSERT_TRUE(silent);
  EXPECT_FALSE(silent->receive(deadline_in(10s)));
  wait_for_connections(0);
}

TEST_F(ControlServerTest, LateReply_IsDelivered) {
  start(20ms);  // shorter than the handler takes: the limit applies to I/O, not to the handler
  auto c = client();
  ASSERT_TRUE(c->send({{"command", "later"}}, deadline_in(10s)));
  ASSERT_TRUE(test::eventually([this] { return on_loop([this] { return !waiting_.empty(); }); }));
  EXPECT_FALSE(c->receive(deadline_in(50ms)));
  on_loop([this] { waiting_[0](said("now")); });
  const auto answer = c->receive(deadline_in(10s));
  ASSERT_TRUE(answer);
  EXPECT_EQ(*answer, said("now"));
}

// umount(8)'s helper depends on this: the mount may end as soon as its daemon knows that a tool waits for the
// final answer.
TEST_F(ControlServerTest, LateReply_IsAnnouncedWhenTheHandlerHasTheRequest) {
  start();
  auto tool = client();
  ASSERT_TRUE(tool);
  ASSERT_TRUE(tool->send({{"command", "later"}}, deadline_in(10s)));
  ASSERT_TRUE(tool->wait_until_heard(deadline_in(10s)));
  ASSERT_EQ(on_loop([this] { return waiting_.size(); }), 1u) << "the handler has run";
  on_loop([this] { waiting_.at(0)(said("at last")); });
  const auto answer = tool->receive(deadline_in(10s));
  ASSERT_TRUE(answer) << answer.error().text;
  EXPECT_EQ(*answer, said("at last"));
}

TEST_F(ControlServerTest, AnswerAtOnce_IsNotAnnounced) {
  start();
  EXPECT_EQ(raw("{\"command\":\"echo\"}\n").find("later"), std::string::npos);
}

TEST_F(ControlServerTest, SecondReply_IsDropped) {
  start();
  EXPECT_EQ(raw("{\"command\":\"twice\"}\n"), encode_line(success_response(1)));
}

TEST_F(ControlServerTest, ForgottenReply_EndsTheConnection) {
  start();
  EXPECT_FALSE(ask({{"command", "drop"}}));
  wait_for_connections(0);
}

TEST_F(ControlServerTest, LargeAnswer_Arrives) {
  start();
  EXPECT_EQ(ask({{"command", "big"}})->at("said").get<std::string>().size(), 4u << 20);
}

TEST_F(ControlServerTest, ToolThatDoesNotRead_IsGivenUp) {
  start(50ms);
  auto c = client();
  ASSERT_TRUE(c->send({{"command", "big"}}, deadline_in(10s)));
  wait_for_connections(0);
}

TEST_F(ControlServerTest, ToolThatGivesUp_FreesItsPlace) {
  start();
  for (size_t i = 0; i < 2 * ControlServer::kMaxConnections; ++i) {
    auto c = client();
    ASSERT_TRUE(c->send({{"command", "later"}}, deadline_in(10s)));
    ASSERT_TRUE(test::eventually([&] { return on_loop([this] { return waiting_.size(); }) > i; }));
    c = refuse(ToolExit::kFailed, "");  // closes the connection
    wait_for_connections(0);
  }
  EXPECT_TRUE(ask({{"command", "echo"}}));
}

// A mount may live for months, and each umount --timeout can leave a reply that it no longer waits for.
TEST_F(ControlServerTest, RepliesOfThoseWhoGaveUp_AreNotKept) {
  start();
  for (size_t i = 0; i < 20; ++i) {
    auto c = client();
    ASSERT_TRUE(c->send({{"command", "watch"}}, deadline_in(10s)));
    ASSERT_TRUE(c->wait_until_heard(deadline_in(10s)));
    EXPECT_EQ(on_loop([this] { return watchers_.size(); }), 1u) << i;
    c = refuse(ToolExit::kFailed, "");  // closes the connection
    wait_for_connections(0);
  }
  auto c = client();
  ASSERT_TRUE(c->send({{"command", "watch"}}, deadline_in(10s)));
  ASSERT_TRUE(c->wait_until_heard(deadline_in(10s)));
  on_loop([this] { watchers_.answer(said("all")); });
  EXPECT_EQ(*c->receive(deadline_in(10s)), said("all"));
  EXPECT_EQ(on_loop([this] { return watchers_.size(); }), 0u);
}

TEST_F(ControlServerTest, ReplyThatIsGiven_IsOver) {
  start();
  auto c = client();
  ASSERT_TRUE(c->send({{"command", "later"}}, deadline_in(10s)));
  ASSERT_TRUE(c->wait_until_heard(deadline_in(10s)));
  EXPECT_FALSE(on_loop([this] { return waiting_.at(0).over(); }));
  on_loop([this] { waiting_[0](said("now")); });
  EXPECT_TRUE(on_loop([this] { return waiting_.at(0).over(); }));
}

TEST_F(ControlServerTest, TooManyConnections_AreTurnedAway) {
  start();
  std::vector<Outcome<ControlClient>> idle;
  for (size_t i = 0; i < ControlServer::kMaxConnections; ++i) idle.push_back(client());
  wait_for_connections(ControlServer::kMaxConnections);
  EXPECT_FALSE(ask({{"command", "echo"}}));
  idle.clear();
  wait_for_connections(0);
  EXPECT_TRUE(ask({{"command", "echo"}}));
}

TEST_F(ControlServerTest, HandlerThatClosesTheServer_StillAnswers) {
  start();
  const auto answer = ask({{"command", "close"}});
  ASSERT_TRUE(answer) << answer.error().text;
  EXPECT_EQ(*answer, said("closed"));
  EXPECT_FALSE(client());
}

TEST_F(ControlServerTest, SocketOfADeadDaemon_IsReplaced) {
  // A child binds and dies without removing the socket, as after SIGKILL.
  const pid_t child = fork();
  if (child == 0) {
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, path_.c_str());
    _exit(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 && listen(fd, 1) == 0 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  ASSERT_EQ(access(path_.c_str(), F_OK), 0);
  start();
  EXPECT_TRUE(ask({{"command", "echo"}}));
}

TEST_F(ControlServerTest, SocketOfADaemonThatIsEnding_IsTheNextMounts) {
  auto ending = ControlServer::create(context_, path_, {});
  ASSERT_TRUE(ending);
  start();
  EXPECT_TRUE(ask({{"command", "echo"}}));
  asio::post(context_, [&] { ending->reset(); });
  EXPECT_TRUE(ask({{"command", "echo"}}));
  EXPECT_TRUE(ask({{"command", "echo"}})) << "it has left the socket where it is";
}

TEST_F(ControlServerTest, OtherUser_IsTurnedAway) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to become another user";
  // Fork before other threads exist: one could hold the allocator's lock, and the child would wait for it
  // forever.
  int started[2];
  ASSERT_EQ(pipe(started), 0);
  const pid_t child = fork();
  if (child == 0) {
    char byte;
    if (setresuid(65534, 65534, 65534) != 0 || read(started[0], &byte, 1) != 1) _exit(9);
    auto c = ControlClient::connect(path_, 0, deadline_in(10s));
    if (!c) _exit(8);
    _exit(c->ask({{"command", "echo"}}, deadline_in(10s)) ? 1 : 0);
  }
  start();
  ASSERT_EQ(chmod(path_.c_str(), 0666), 0);
  ASSERT_EQ(chmod(temp_.path().c_str(), 0755), 0);
  ASSERT_EQ(write(started[1], "x", 1), 1);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << "1: a stranger was answered";
  close(started[0]);
  close(started[1]);
}

TEST(ControlClient, SocketOfAStranger_IsNotBelieved) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to become another user";
  const TempDirectory temp;
  ASSERT_EQ(chmod(temp.path().c_str(), 0777), 0);
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const std::string path = temp.path("s");
  const pid_t child = fork();
  if (child == 0) {
    if (setresuid(65534, 65534, 65534) != 0) _exit(9);
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, path.c_str());
    if (bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 || listen(fd, 1) != 0) _exit(9);
    if (write(ready[1], "x", 1) != 1) _exit(9);
    pause();
  }
  close(ready[1]);
  char byte;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  const auto c = ControlClient::connect(path, 1000, deadline_in(10s));
  EXPECT_FALSE(c);
  EXPECT_TRUE(ControlClient::connect(path, 65534, deadline_in(10s)));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  close(ready[0]);
}

TEST(ControlClient, NobodyThere_IsAnError) {
  const TempDirectory temp;
  EXPECT_FALSE(ControlClient::connect(temp.path("none"), 0, deadline_in(10s)));
  EXPECT_FALSE(ControlClient::connect("", 0, deadline_in(10s)));
  EXPECT_FALSE(ControlClient::connect(std::string(200, 'x'), 0, deadline_in(10s)));
}

TEST(ControlClient, ADeadDaemonsSocket_IsAbandoned) {
  const TempDirectory temp;
  const std::string path = temp.path("s");
  EXPECT_FALSE(is_abandoned(path));
  const Fd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strcpy(address.sun_path, path.c_str());
  ASSERT_EQ(bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  EXPECT_TRUE(is_abandoned(path));
  ASSERT_EQ(listen(fd.get(), 1), 0);
  EXPECT_FALSE(is_abandoned(path));
}

TEST(Printable, TextOfSeveralLines_DrivesNoTerminal) {
  EXPECT_EQ(printable_text("a\tb\nc\x1b[2J\x7f\n"), "a\tb\nc\\x1b[2J\\x7f\n");
  EXPECT_EQ(printable("a\n"), "a\\x0a");
  // C1 controls, as UTF-8 and as single bytes; U+009B is CSI.
  EXPECT_EQ(printable("a\xc2\x9b"
                      "2J\xc2\x85"),
            "a\\u009b2J\\u0085");
  EXPECT_EQ(printable("a\x9b"
                      "2J\xc2"),
            "a\\x9b2J\\xc2");
  // Bidi_Control characters, and line separators.
  EXPECT_EQ(printable("\u202egpj.exe\u202c\u2066\u2069\u200f\u061c\u2028"),
            "\\u202egpj.exe\\u202c\\u2066\\u2069\\u200f\\u061c\\u2028");
  // Other text is unchanged. Overlong forms and surrogates are not valid UTF-8, so their bytes are escaped.
  EXPECT_EQ(printable("é שלום 日本 \U0001f600"), "é שלום 日本 \U0001f600");
  EXPECT_EQ(printable("\xe0\x82\x9b\xed\xa0\x80\xf5"), "\\xe0\\x82\\x9b\\xed\\xa0\\x80\\xf5");
}

TEST(ControlProtocol, Response_MustHaveItsShape) {
  EXPECT_EQ(*decode_response(R"({"ok":true,"result":{"a":5}})"), (Json{{"a", 5}}));
  EXPECT_EQ(decode_response(R"({"ok":false,"error":"x"})").error().text, "x");
  for (const char* bad : {"", "5", "{}", R"({"ok":1})", R"({"ok":true})", R"({"ok":true,"result":5})",
                          R"({"ok":false})", R"({"ok":false,"error":1})"}) {
    EXPECT_FALSE(decode_response(bad)) << bad;
  }
}

TEST(ControlProtocol, NamesThatAreNotUtf8_AreSentAnyway) {
  EXPECT_NE(encode_line(success_response("a\xff")).find("a"), std::string::npos);
}

TEST(WaitForExit, ChildThatEnds_IsSeen) {
  const pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  EXPECT_FALSE(wait_for_exit(child, deadline_in(10ms)));
  kill(child, SIGKILL);
  EXPECT_TRUE(wait_for_exit(child, deadline_in(60s)));
  waitpid(child, nullptr, 0);
  EXPECT_TRUE(wait_for_exit(child, deadline_in(10s)));
}

TEST(ControlPath, Directories_AreByOwner) {
  ControlPlaces places{"/r", "/t", "/x"};
  EXPECT_EQ(control_directories(places, 0),
            (std::vector<std::string>{"/r/nfsrdma-fuse", "/t/nfsrdma-fuse-0"}));
  const auto others = control_directories(places, 77777);
  EXPECT_EQ(others, (std::vector<std::string>{"/r/user/77777/nfsrdma-fuse", "/t/nfsrdma-fuse-77777"}));
}

MountEntry entry_of(uid_t owner) {
  MountEntry entry;
  entry.major = 0;
  entry.minor = 57;
  entry.fs_options = "rw,user_id=" + std::to_string(owner);
  return entry;
}

TEST(ControlPath, SocketThatWasMade_IsFound) {
  const TempDirectory temp;
  const ControlPlaces places{temp.path("run"), temp.path(), ""};
  const auto path = make_control_path(places, geteuid(), 0, 57);
  ASSERT_TRUE(path) << path.error().text;
  EXPECT_EQ(find_control_socket(places, entry_of(geteuid())), "");
  asio::io_context context(1);
  const auto server = ControlServer::create(context, *path, {});
  ASSERT_TRUE(server) << server.error().text;
  EXPECT_EQ(find_control_socket(places, entry_of(geteuid())), *path);
}

TEST(ControlPath, DirectoryOthersMayWrite_IsNotUsed) {
  const TempDirectory temp;
  const ControlPlaces places{temp.path("run"), temp.path(), ""};
  const std::string directory = temp.path("nfsrdma-fuse-" + std::to_string(geteuid()));
  ASSERT_EQ(mkdir(directory.c_str(), 0700), 0);
  ASSERT_EQ(chmod(directory.c_str(), 0777), 0);
  EXPECT_FALSE(make_control_path(places, geteuid(), 0, 57));
  ASSERT_EQ(chmod(directory.c_str(), 0700), 0);
  EXPECT_TRUE(make_control_path(places, geteuid(), 0, 57));
}

TEST(ControlPath, SymbolicLink_IsNotUsed) {
  const TempDirectory temp;
  const ControlPlaces places{temp.path("run"), temp.path(), ""};
  ASSERT_EQ(mkdir(temp.path("real").c_str(), 0700), 0);
  ASSERT_EQ(symlink("real", temp.path("nfsrdma-fuse-" + std::to_string(geteuid())).c_str()), 0);
  EXPECT_FALSE(make_control_path(places, geteuid(), 0, 57));
}

TEST(ControlPath, LongDirectory_FallsThroughToTheNext) {
  const TempDirectory temp;
  ControlPlaces places{temp.path("run"), temp.path(), "/" + std::string(120, 'x')};
  EXPECT_TRUE(make_control_path(places, geteuid(), 0, 57));
}

}  // namespace
}  // namespace nfsrdma::cli
