// SPDX-License-Identifier: Apache-2.0
// metrics=: the valid addresses, and a server with well-behaved and misbehaving clients.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <asio/executor_work_guard.hpp>
#include <asio/post.hpp>
#include <atomic>
#include <future>
#include <thread>

#include "cli/control/control_path.h"
#include "cli/options/metrics_place.h"
#include "cli/stats/metrics_server.h"
#include "tests/unit/cli/temp_directory.h"
#include "tests/unit/transport/support/eventually.h"
#include "transport/runtime/fd.h"

namespace nfsrdma::cli {
namespace {

using namespace std::chrono_literals;
using nfsrdma::test::eventually;

TEST(MetricsPlace, Spellings_AreRead) {
  EXPECT_EQ(parse_metrics_place("unix:/run/m")->path, "/run/m");
  EXPECT_EQ(*parse_metrics_place("127.0.0.1:9464"), (MetricsPlace{"", "127.0.0.1", 9464}));
  EXPECT_EQ(*parse_metrics_place("localhost:9464"), (MetricsPlace{"", "127.0.0.1", 9464}));
  EXPECT_EQ(*parse_metrics_place("[::1]:1"), (MetricsPlace{"", "::1", 1}));
  for (const char* text : {"unix:/run/m", "127.0.0.1:9464", "[::1]:65535", "0.0.0.0:80"})
    EXPECT_EQ(parse_metrics_place(text)->text(), text);
  EXPECT_TRUE(parse_metrics_place("[::1]:1")->loopback());
  EXPECT_TRUE(parse_metrics_place("127.1.2.3:1")->loopback());
  EXPECT_FALSE(parse_metrics_place("0.0.0.0:1")->loopback());
}

TEST(MetricsPlace, AnythingElse_IsToldWhatIsPossible) {
  for (const char* text :
       {"", "9464", ":9464", "host:9464", "::1:9464", "[127.0.0.1]:9464", "[]:1", "/run/m"}) {
    const auto place = parse_metrics_place(text);
    ASSERT_FALSE(place) << text;
    EXPECT_NE(place.error().text.find("neither unix:/PATH nor ADDRESS:PORT"), std::string::npos)
        << place.error().text;
  }
  for (const char* text : {"127.0.0.1:0", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:1x"})
    EXPECT_NE(parse_metrics_place(text).error().text.find("1 to 65535"), std::string::npos) << text;
  EXPECT_NE(parse_metrics_place("unix:m").error().text.find("begins with /"), std::string::npos);
  EXPECT_FALSE(parse_metrics_place("unix:/" + std::string(107, 'a')));
  EXPECT_TRUE(parse_metrics_place("unix:/" + std::string(106, 'a')));
}

class MetricsServerTest : public ::testing::Test {
 protected:
  ~MetricsServerTest() override { stop(); }

  // Runs `f` on the context's thread, as in the daemon.
  template <class F>
  auto on_thread(F f) {
    std::packaged_task<decltype(f())()> task(f);
    auto result = task.get_future();
    asio::post(context, [&task] { task(); });
    return result.get();
  }
  std::string start(const MetricsPlace& place, std::chrono::milliseconds connection_time = 10s) {
    return on_thread([&]() -> std::string {
      auto created = MetricsServer::create(
          context, place, [this] { return "made " + std::to_string(++made) + "\n" + body; }, connection_time);
      if (!created) return created.error().text;
      server = *std::move(created);
      return "";
    });
  }
  void stop() {
    if (!thread.joinable()) return;
    on_thread([&] { server.reset(); });
    work.reset();
    thread.join();  // returns because nothing of the server keeps the context running
  }
  size_t connections() {
    return on_thread([&] { return server->connections(); });
  }
  Fd connect() const {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(server->port());
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    Fd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    return fd;
  }
  static void send(const Fd& fd, std::string_view text) {
    (void)::send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL);
  }
  static std::string until_end(const Fd& fd) {
    std::string all;
    char buffer[4096];
    for (ssize_t n; (n = recv(fd.get(), buffer, sizeof buffer, 0)) > 0;)
      all.append(buffer, static_cast<size_t>(n));
    return all;
  }
  static std::string ask(const Fd& fd, std::string_view request) {
    send(fd, request);
    return until_end(fd);
  }
  static constexpr std::string_view kGet = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";

  asio::io_context context{1};
  asio::executor_work_guard<asio::io_context::executor_type> work{context.get_executor()};
  std::thread thread{[this] { context.run(); }};
  std::atomic<int> made{0};
  std::string body;
  std::unique_ptr<MetricsServer> server;
  const MetricsPlace loopback{"", "127.0.0.1", 0};
};

TEST_F(MetricsServerTest, Get_IsAnsweredWithTheText) {
  body = std::string(500'000, 'x');  // more than the socket's buffer
  ASSERT_EQ(start(loopback), "");
  const std::string answer = ask(connect(), kGet);
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 200")) << answer.substr(0, 200);
  EXPECT_NE(answer.find("Content-Type: text/plain; version=0.0.4"), std::string::npos);
  EXPECT_NE(answer.find("\r\n\r\nmade 1\nxxx"), std::string::npos);
  EXPECT_TRUE(answer.ends_with(body));
  EXPECT_TRUE(eventually([&] { return connections() == 0; }));
}

TEST_F(MetricsServerTest, OtherRequests_AreRefused) {
  ASSERT_EQ(start(loopback), "");
  EXPECT_NE(ask(connect(), "GET / HTTP/1.1\r\nHost: x\r\n\r\n").find(" 404 "), std::string::npos);
  EXPECT_NE(ask(connect(), "GET /metrics/../x HTTP/1.1\r\nHost: x\r\n\r\n").find(" 404 "), std::string::npos);
  EXPECT_NE(ask(connect(), "DELETE /metrics HTTP/1.1\r\nHost: x\r\n\r\n").find(" 405 "), std::string::npos);
  EXPECT_NE(ask(connect(), "POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\nabc")
                .find(" 405 "),
            std::string::npos);
  const std::string head = ask(connect(), "HEAD /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_NE(head.find(" 200 "), std::string::npos);
  EXPECT_TRUE(head.ends_with("\r\n\r\n"));
}

TEST_F(MetricsServerTest, EndlessHeader_IsCutOff) {
  ASSERT_EQ(start(loopback), "");
  const Fd fd = connect();
  send(fd, "GET /metrics HTTP/1.1\r\n");
  const std::string line = "X-Long: " + std::string(1000, 'a') + "\r\n";
  size_t sent = 0;
  while (sent < 10'000'000 && ::send(fd.get(), line.data(), line.size(), MSG_NOSIGNAL) > 0)
    sent += line.size();
  EXPECT_LT(sent, 10'000'000u);
  EXPECT_NE(ask(connect(), kGet).find(" 200 "), std::string::npos);
}

// A client that sends one byte at a time does not count as idle.
TEST_F(MetricsServerTest, SlowClients_GoWhenTheirTimeIsOver) {
  ASSERT_EQ(start(loopback, 500ms), "");
  std::vector<Fd> slow;
  for (unsigned n = 0; n < MetricsServer::kMaxConnections; ++n) slow.push_back(connect());
  std::atomic<bool> stop{false};
  std::thread dripping([&] {
    size_t at = 0;
    const auto drip = [&] {
      for (const Fd& fd : slow) send(fd, kGet.substr(at, 1));
      at = (at + 1) % kGet.size();
      return stop.load();
    };
    EXPECT_TRUE(eventually(drip, 20ms));  // so that no request is complete when its time is over
  });
  // This connection waits in the backlog until another one ends.
  const std::string answer = ask(connect(), kGet);
  EXPECT_NE(answer.find(" 200 "), std::string::npos) << answer;
  for (const Fd& fd : slow) until_end(fd);
  stop = true;
  dripping.join();
  EXPECT_TRUE(eventually([&] { return connections() == 0; }));
}

// A client that sends a request and does not read the answer.
TEST_F(MetricsServerTest, ClientThatTakesNothing_IsEnded) {
  body = std::string(8'000'000, 'x');
  ASSERT_EQ(start(loopback, 300ms), "");
  const Fd fd = connect();
  send(fd, kGet);
  EXPECT_TRUE(eventually([&] { return made == 1 && connections() == 0; }));
}

TEST_F(MetricsServerTest, Text_IsMadeFourTimesASecondAtMost) {
  ASSERT_EQ(start(loopback), "");
  const auto begin = std::chrono::steady_clock::now();
  for (int n = 0; n < 100; ++n) EXPECT_NE(ask(connect(), kGet).find(" 200 "), std::string::npos);
  const auto took = std::chrono::steady_clock::now() - begin;
  EXPECT_LE(made, 1 + took / MetricsServer::kTextTime);
}

TEST_F(MetricsServerTest, AddressInUse_IsSaid) {
  ASSERT_EQ(start(loopback), "");
  std::unique_ptr<MetricsServer> first = std::move(server);
  const std::string error = start({"", "127.0.0.1", first->port()});
  EXPECT_NE(error.find("bind: Address already in use"), std::string::npos) << error;
  on_thread([&] { first.reset(); });
}

TEST_F(MetricsServerTest, SocketFile_IsItsOwnersAndGoesInTheEnd) {
  const TempDirectory temp;
  const std::string path = temp.path("metrics");
  ASSERT_EQ(start({path, "", 0}), "");
  struct stat st {};
  ASSERT_EQ(stat(path.c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0600u);
  const auto address = control_address(path);
  {
    const Fd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address), 0);
    EXPECT_NE(ask(fd, kGet).find(" 200 "), std::string::npos);
  }
  stop();
  EXPECT_NE(stat(path.c_str(), &st), 0);
}

TEST_F(MetricsServerTest, WhatStandsThere_IsReplacedOnlyIfItsDaemonDied) {
  const TempDirectory temp;
  const std::string file = temp.write("file", "precious");
  EXPECT_NE(start({file, "", 0}).find("Address already in use"), std::string::npos);
  EXPECT_EQ(access(file.c_str(), F_OK), 0);
  const std::string dead = temp.path("dead");
  {
    const auto address = control_address(dead);
    const Fd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(bind(fd.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address), 0);
  }
  EXPECT_EQ(start({dead, "", 0}), "");
}

}  // namespace
}  // namespace nfsrdma::cli
