// SPDX-License-Identifier: Apache-2.0
// The Kerberos helper: its messages, its workers, and what the daemon sees when a worker dies or is silent.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/cli/temp_directory.h"
#include "tests/unit/support/in_child.h"
#include "tests/unit/transport/support/eventually.h"
#include "tests/unit/transport/support/run_on.h"
#include "transport/security/credential_caches.h"
#include "transport/security/helper_keeper.h"
#include "transport/security/helper_link.h"
#include "transport/security/helper_messages.h"
#include "transport/security/helper_process.h"
#include "transport/security/packets.h"

namespace nfsrdma::test {
namespace {

using namespace std::chrono_literals;
using namespace security;  // NOLINT: used throughout this file

ByteVector bytes_of(std::string_view text) {
  const auto* begin = reinterpret_cast<const std::byte*>(text.data());
  return {begin, begin + text.size()};
}

// Makes the tokens "hello HOST of USER" and "again", then the context "context". The host's name chooses what
// goes wrong.
class FakeTokens final : public TokenMaker {
 public:
  explicit FakeTokens(ContextRequest request) : request_(std::move(request)) {}

  Result<InitiationStep> step(ConstBytes token) override {
    if (request_.host == "crash") ::raise(SIGKILL);
    if (request_.host == "silence") ::pause();
    if (request_.host == "stop") ::raise(SIGSTOP);
    if (request_.host.starts_with('/'))  // until there is such a file
      eventually([this] { return ::access(request_.host.c_str(), F_OK) == 0; });
    if (request_.host == "kill the helper") ::kill(::getppid(), SIGKILL);
    ++steps_;
    if (steps_ == 1) return InitiationStep{bytes_of("hello " + request_.host), std::nullopt};
    if (token.size() == kMaxTokenBytes) return InitiationStep{bytes_of("again"), std::nullopt};
    return InitiationStep{{}, bytes_of("context")};
  }

 private:
  const ContextRequest request_;
  int steps_ = 0;
};

Result<std::unique_ptr<TokenMaker>> find_fakes(const ContextRequest& request) {
  if (request.host == "expired")
    return fail({.layer = Layer::kSecurity,
                 .recovery = Recovery::kPermanent,
                 .errnum = EKEYEXPIRED,
                 .status = 3,
                 .op = "gss_acquire_cred",
                 .cause = "the ticket\nhas expired"});
  // As the real one: the worker belongs to the user.
  if (request.host == "stop" && ::geteuid() == 0) NFSRDMA_TRY(become(request.user));
  return std::make_unique<FakeTokens>(request);
}

// A helper in a process of its own.
class Helper {
 public:
  explicit Helper(HelperOptions options = {}, Duration deadline = 10s) {
    auto pair = make_packet_pair(SOCK_NONBLOCK);
    EXPECT_TRUE(pair);
    child_ = ::fork();
    if (child_ == 0) {
      pair->first.reset();
      serve_helper(pair->second.get(), find_fakes, options);
      ::_exit(7);
    }
    link_ = std::make_unique<HelperLink>(std::move(pair->first), deadline);
  }
  ~Helper() { end(); }

  // Closes the socket; the helper's exit status.
  int end() {
    if (child_ <= 0) return -1;
    link_.reset();
    int status = 0;
    ::waitpid(std::exchange(child_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  void kill() { ::kill(child_, SIGKILL); }
  HelperLink& link() { return *link_; }

 private:
  pid_t child_ = -1;
  std::unique_ptr<HelperLink> link_;
};

// Forked first: a process that forks has no other threads.
struct HelperTest : testing::Test {
  Helper helper{HelperOptions{.most_workers = 2, .worker_limit = 1s}};
  LoopThread loop;

  std::unique_ptr<Initiation> begin(const std::string& host) {
    auto begun = helper.link().begin({.user = 4711, .host = host});
    EXPECT_TRUE(begun) << describe(begun.error());
    return *std::move(begun);
  }
  Result<InitiationStep> step(Initiation& exchange, ByteVector token = {}) {
    return run_on(*loop, exchange.step(std::move(token)));
  }
};

TEST_F(HelperTest, Exchange_PassesTokensUntilTheContextIsThere) {
  const auto exchange = begin("filer");
  auto first = step(*exchange);
  ASSERT_TRUE(first) << describe(first.error());
  EXPECT_EQ(first->token, bytes_of("hello filer"));
  EXPECT_FALSE(first->context);
  auto second = step(*exchange, ByteVector(kMaxTokenBytes));
  ASSERT_TRUE(second) << describe(second.error());
  EXPECT_EQ(second->token, bytes_of("again"));
  auto third = step(*exchange, bytes_of("reply"));
  ASSERT_TRUE(third) << describe(third.error());
  EXPECT_EQ(third->context, bytes_of("context"));
}

TEST_F(HelperTest, Failure_ComesWithItsCauseInOneLine) {
  const auto exchange = begin("expired");
  const auto refused = step(*exchange);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().layer, Layer::kSecurity);
  EXPECT_EQ(refused.error().errnum, EKEYEXPIRED);
  EXPECT_EQ(refused.error().status, 3u);
  EXPECT_EQ(refused.error().recovery, Recovery::kPermanent);
  EXPECT_EQ(refused.error().cause, "the ticket has expired");
}

TEST_F(HelperTest, DeadWorker_EndsItsOwnExchangeOnly) {
  const auto healthy = begin("filer");
  ASSERT_TRUE(step(*healthy));
  const auto crash = begin("crash");
  const auto died = step(*crash);
  ASSERT_FALSE(died);
  EXPECT_EQ(died.error().recovery, Recovery::kRetry);
  EXPECT_EQ(died.error().errnum, EHOSTUNREACH);
  EXPECT_TRUE(step(*healthy, bytes_of("reply")));
  EXPECT_TRUE(step(*begin("next")));
}

TEST_F(HelperTest, SilentWorker_IsEndedByItsLimit) {
  const auto exchange = begin("silence");
  const auto ended = step(*exchange);
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().recovery, Recovery::kRetry);
  EXPECT_EQ(ended.error().errnum, EHOSTUNREACH) << "the daemon's own deadline says ETIMEDOUT";
}

// The worker's second is for its own work.
TEST_F(HelperTest, SlowServer_DoesNotEndTheWorker) {
  const auto exchange = begin("filer");
  ASSERT_TRUE(step(*exchange));
  const TimePoint later = Clock::now() + 1500ms;
  ASSERT_TRUE(eventually([&] { return Clock::now() > later; }));
  const auto second = step(*exchange, bytes_of("reply"));
  ASSERT_TRUE(second) << describe(second.error());
  EXPECT_TRUE(second->context);
}

TEST_F(HelperTest, TokenThatNoServerSends_IsNotForwarded) {
  const auto exchange = begin("filer");
  ASSERT_TRUE(step(*exchange));
  EXPECT_FALSE(step(*exchange, {}));
  EXPECT_FALSE(step(*exchange, ByteVector(kMaxTokenBytes + 1)));
}

TEST_F(HelperTest, EndOfTheDaemon_EndsTheHelper) {
  EXPECT_EQ(helper.end(), 7);
}

TEST_F(HelperTest, DeathOfTheHelper_IsAnErrorAndNotAWait) {
  helper.kill();
  EXPECT_TRUE(eventually([&] { return !helper.link().begin({}); }));
  const auto begun = helper.link().begin({});
  ASSERT_FALSE(begun);
  EXPECT_EQ(begun.error().recovery, Recovery::kPermanent) << "nobody starts another one";
  EXPECT_NE(describe(begun.error()).find("has died; unmount and mount again"), std::string::npos)
      << describe(begun.error());
}

TEST(HelperLink, FullSocket_IsAskedAgainLater) {
  auto pair = make_packet_pair(SOCK_NONBLOCK);
  ASSERT_TRUE(pair);
  HelperLink link(std::move(pair->first));
  for (int i = 0; i < 10'000; ++i) {
    const auto begun = link.begin({});
    if (begun) continue;
    EXPECT_EQ(begun.error().errnum, EAGAIN);
    EXPECT_EQ(begun.error().recovery, Recovery::kRetry);
    return;
  }
  FAIL() << "the socket never filled";
}

std::future<Result<InitiationStep>> first_step(Loop& loop, Initiation& exchange) {
  return start_on(loop, exchange.step({}));
}

std::unique_ptr<Initiation> begin(Helper& helper, uint32_t user, const std::string& host) {
  auto begun = helper.link().begin({.user = user, .host = host});
  EXPECT_TRUE(begun) << describe(begun.error());
  return *std::move(begun);
}

// A worker's second begins after its exchange did, so an answer before its end is a third worker's.
TEST(HelperWorkers, MoreExchangesThanWorkers_WaitForTheirTurn) {
  Helper helper(HelperOptions{.most_workers = 2, .worker_limit = 1s});
  LoopThread loop;
  const TimePoint began = Clock::now();
  std::vector<std::unique_ptr<Initiation>> silent;
  std::vector<std::future<Result<InitiationStep>>> answers;
  for (uint32_t user : {1, 2}) {
    silent.push_back(begin(helper, user, "silence"));
    answers.push_back(first_step(*loop, *silent.back()));
  }
  const auto third = begin(helper, 3, "filer");
  const auto answer = run_on(*loop, third->step({}));
  EXPECT_TRUE(answer) << describe(answer.error());
  EXPECT_GE(Clock::now() - began, 1s) << "answered before another exchange ended";
  for (auto& one : answers) EXPECT_FALSE(one.get());
}

// SIGALRM does not end a stopped process, and its user may stop it.
TEST(HelperWorkers, ThatTheirUserStops_AreEnded) {
  Helper helper(HelperOptions{.most_workers = 2, .worker_limit = 60s});
  LoopThread loop;
  std::vector<std::unique_ptr<Initiation>> stopped;
  std::vector<std::future<Result<InitiationStep>>> answers;
  for (uint32_t user : {12345, 12345, 12346, 12346}) {
    stopped.push_back(begin(helper, user, "stop"));
    answers.push_back(first_step(*loop, *stopped.back()));
  }
  const auto next = begin(helper, 4711, "filer");
  const auto answer = run_on(*loop, next->step({}));
  EXPECT_TRUE(answer) << describe(answer.error());
  for (auto& one : answers) {
    const auto ended = one.get();
    ASSERT_FALSE(ended);
    EXPECT_EQ(ended.error().errnum, EHOSTUNREACH);
  }
}

TEST(HelperWorkers, ThatStayTooLong_AreEnded) {
  Helper helper(HelperOptions{.most_workers = 1, .worker_limit = 60s, .exchange_limit = 1s});
  LoopThread loop;
  const auto idle = begin(helper, 1, "filer");
  ASSERT_TRUE(run_on(*loop, idle->step({})));
  const auto next = begin(helper, 2, "filer");
  const auto answer = run_on(*loop, next->step({}));
  EXPECT_TRUE(answer) << describe(answer.error());
  EXPECT_FALSE(run_on(*loop, idle->step(bytes_of("reply"))));
}

TEST(HelperWorkers, OfOneUser_LeaveRoomForOthers) {
  const cli::TempDirectory directory;
  const std::string gate = directory.path() + "/open";
  Helper helper(HelperOptions{.most_workers = 3, .most_of_a_user = 2, .worker_limit = 60s}, 60s);
  LoopThread loop;
  std::vector<std::unique_ptr<Initiation>> waiting;
  std::vector<std::future<Result<InitiationStep>>> answers;
  for (int i = 0; i < 2; ++i) {
    waiting.push_back(begin(helper, 1, gate));
    answers.push_back(first_step(*loop, *waiting.back()));
  }
  const auto third = begin(helper, 1, "filer");
  auto late = first_step(*loop, *third);
  const auto other = begin(helper, 2, "filer");
  EXPECT_TRUE(run_on(*loop, other->step({})));
  EXPECT_NE(late.wait_for(0s), std::future_status::ready) << "a third worker of one user";
  std::ofstream(gate).put('\n');
  for (auto& one : answers) EXPECT_TRUE(one.get());
  waiting.clear();
  EXPECT_TRUE(late.get()) << "it had its turn";
}

// ---------------------------------------------------------------------------------------------------------

std::unique_ptr<HelperLink> keeper_and_helper() {
  auto socket = start_keeper({.give_up_rights = [] { return true; }, .find = find_fakes});
  EXPECT_TRUE(socket) << describe(socket.error());
  return std::make_unique<HelperLink>(*std::move(socket), 10s);
}

bool answers(HelperLink& link) {
  LoopThread loop;
  auto begun = link.begin({.user = 1, .host = "filer"});
  return begun && run_on(*loop, (*begun)->step({})).has_value();
}

// A mount that ends up with sec=sys ends its keeper, and its daemon waits for no child.
TEST(Keeper, IsNotTheDaemonsChild) {
  const auto link = keeper_and_helper();
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
  EXPECT_TRUE(answers(*link));
}

TEST(Keeper, HasNoFileOfTheDaemons) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const Fd read_end(ends[0]);
  Fd write_end(ends[1]);
  const auto link = keeper_and_helper();
  ASSERT_TRUE(answers(*link));
  write_end.reset();
  pollfd file{read_end.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&file, 1, 5000), 1);
  EXPECT_NE(file.revents & POLLHUP, 0) << "somebody still has the other end";
}

// The keeper becomes this process' child, so that its end can be seen.
TEST(Keeper, EndsWithTheDaemon) {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  auto link = keeper_and_helper();
  EXPECT_TRUE(answers(*link));
  link.reset();
  int status = -1;
  pid_t ended = 0;
  EXPECT_TRUE(eventually([&] { return (ended = ::waitpid(-1, &status, WNOHANG)) != 0; }));
  ::prctl(PR_SET_CHILD_SUBREAPER, 0);
  EXPECT_GT(ended, 0) << "the keeper is still there";
  EXPECT_EQ(status, 0);
}

TEST(Keeper, StartsAHelperThatDied_Again) {
  const auto link = keeper_and_helper();
  {
    LoopThread loop;
    auto begun = link->begin({.user = 1, .host = "kill the helper"});
    ASSERT_TRUE(begun);
    (void)run_on(*loop, (*begun)->step({}));
  }
  EXPECT_TRUE(answers(*link));
}

TEST(Keeper, Pauses_GrowWhileHelpersDieSoon) {
  EXPECT_EQ(pause_after(0s, 0s), 1s);
  EXPECT_EQ(pause_after(1s, 0s), 2s);
  EXPECT_EQ(pause_after(16s, 59s), 30s);
  EXPECT_EQ(pause_after(30s, 0s), 30s);
  EXPECT_EQ(pause_after(30s, 60s), 1s) << "this one worked";
}

TEST(HelperDeadline, Daemon_DoesNotWaitForAWorkerThatHangs) {
  Helper helper(HelperOptions{.worker_limit = 3s}, 100ms);
  LoopThread loop;
  auto exchange = helper.link().begin({.user = 0, .host = "silence"});
  ASSERT_TRUE(exchange);
  const auto ended = run_on(*loop, (*exchange)->step({}));
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().errnum, ETIMEDOUT);
  EXPECT_EQ(ended.error().recovery, Recovery::kRetry);
  helper.kill();
}

// ---------------------------------------------------------------------------------------------------------

TEST(HelperMessages, EveryKind_SurvivesTheWay) {
  const ContextRequest request{.user = 0xffff'fffe, .host = "filer.example.org"};
  EXPECT_EQ(decode_request(encode(request)), request);
  const HelperAnswer token{.kind = AnswerKind::kToken, .token = ByteVector(kMaxTokenBytes)};
  EXPECT_EQ(decode_answer(encode(token)), token);
  const HelperAnswer done{.kind = AnswerKind::kDone, .token = bytes_of("t"), .context = bytes_of("c")};
  EXPECT_EQ(decode_answer(encode(done)), done);
  const HelperAnswer failed{.failure = 2, .errnum = EACCES, .passing = true, .cause = "no ticket"};
  EXPECT_EQ(decode_answer(encode(failed)), failed);
}

TEST(HelperMessages, TooLong_IsNotEncodedOrCut) {
  EXPECT_TRUE(encode(ContextRequest{.user = 0, .host = std::string(kMaxHostBytes + 1, 'x')}).empty());
  const HelperAnswer token{.kind = AnswerKind::kToken, .token = ByteVector(kMaxTokenBytes + 1)};
  EXPECT_TRUE(encode(token).empty());
  const auto cut = decode_answer(encode(HelperAnswer{.cause = std::string(kMaxCauseBytes + 1, 'x')}));
  ASSERT_TRUE(cut);
  EXPECT_EQ(cut->cause.size(), kMaxCauseBytes);
}

TEST(HelperMessages, TruncatedAtEveryByte_IsAnError) {
  const ByteVector answer =
      encode(HelperAnswer{.kind = AnswerKind::kDone, .token = bytes_of("token"), .context = bytes_of("ctx")});
  for (size_t n = 0; n < answer.size(); ++n) EXPECT_FALSE(decode_answer(ConstBytes(answer).first(n))) << n;
  ByteVector longer = answer;
  longer.resize(longer.size() + 4);
  EXPECT_FALSE(decode_answer(longer));
}

TEST(HelperMessages, ErrnoThatNoHelperSends_BecomesEio) {
  EXPECT_EQ(error_of(HelperAnswer{.errnum = EINTR}).errnum, EIO);
  EXPECT_EQ(error_of(HelperAnswer{.errnum = 0}).errnum, EIO);
}

// A hostile peer of the helper: what it sends is no descriptor, or more than one.
TEST(Packets, WithoutADescriptor_AreRefused) {
  auto pair = make_packet_pair(0);
  ASSERT_TRUE(pair);
  ASSERT_TRUE(send_packet(pair->first.get(), bytes_of("x")));
  const auto received = receive_exchange(pair->second.get());
  ASSERT_FALSE(received);
  EXPECT_EQ(received.error().errnum, EPROTO);
  ASSERT_TRUE(send_packet(pair->first.get(), bytes_of("too long")));
  EXPECT_EQ(receive_packet(pair->second.get(), 3).error().errnum, EMSGSIZE);
  pair->first.reset();
  EXPECT_EQ(receive_exchange(pair->second.get()).error().errnum, ENOTCONN);
}

// ---------------------------------------------------------------------------------------------------------

class CachesTest : public testing::Test {
 protected:
  CachesTest() {
    char name[] = "/tmp/nfsrdma-caches-XXXXXX";
    root_ = ::mkdtemp(name);
    places_ = {root_ + "/tmp", root_ + "/run"};
    ::mkdir(places_.temporary.c_str(), 0700);
    ::mkdir(places_.run.c_str(), 0700);
  }
  ~CachesTest() override { (void)!::system(("rm -r " + root_).c_str()); }
  void make(const std::string& path) { std::ofstream(path) << "tickets"; }

  const uint32_t me_ = ::geteuid();
  const std::string number_ = std::to_string(me_);
  std::string root_;
  CachePlaces places_;
};

TEST_F(CachesTest, OwnMount_BeginsWithTheLibrarysDefault) {
  const std::vector<std::string> own{"", "KEYRING:persistent:" + number_, "KCM:"};
  EXPECT_EQ(credential_caches(me_, true, places_), own);
  const std::vector<std::string> roots{"KEYRING:persistent:" + number_, "KCM:"};
  EXPECT_EQ(credential_caches(me_, false, places_), roots);
}

TEST_F(CachesTest, Files_AreThoseOfTheUser) {
  const std::string usual = places_.temporary + "/krb5cc_" + number_;
  make(usual);
  make(usual + "_older");
  const timespec times[2] = {{1000, 0}, {1000, 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, (usual + "_older").c_str(), times, 0), 0);
  make(usual + "_newer");
  make(places_.temporary + "/krb5cc_9" + number_);  // another user's name
  ASSERT_EQ(::symlink(usual.c_str(), (usual + "_link").c_str()), 0);
  ASSERT_EQ(::mkdir((places_.run + "/" + number_).c_str(), 0700), 0);
  ASSERT_EQ(::mkdir((places_.run + "/" + number_ + "/krb5cc").c_str(), 0700), 0);
  make(places_.run + "/" + number_ + "/krb5cc_session");
  const std::vector<std::string> expected{"FILE:" + usual,
                                          "FILE:" + usual + "_newer",
                                          "FILE:" + usual + "_older",
                                          "DIR:" + places_.run + "/" + number_ + "/krb5cc",
                                          "FILE:" + places_.run + "/" + number_ + "/krb5cc_session",
                                          "KEYRING:persistent:" + number_,
                                          "KCM:"};
  EXPECT_EQ(credential_caches(me_, false, places_), expected);
  // The same files count for nobody else.
  const auto others = credential_caches(me_ + 1, false, places_);
  EXPECT_EQ(others.size(), 2u);
}

TEST(Become, AsRoot_GivesUpRootForGood) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  EXPECT_EQ(in_child([] {
              return become(12345).has_value() && ::geteuid() == 12345 && ::getegid() == 65534 &&
                     ::getgroups(0, nullptr) == 0 && ::seteuid(0) != 0 && ::setuid(0) != 0;
            }),
            0);
}

// As /proc/self/status shows them; empty: there is no such line.
std::string capabilities(const std::string& set) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word == set && status >> word) return word;
  }
  return {};
}

TEST(Become, AsRootToRoot_LeavesNoCapability) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  EXPECT_EQ(in_child([] {
              const std::string none(16, '0');
              return become(0).has_value() && ::geteuid() == 0 && ::getgroups(0, nullptr) == 0 &&
                     capabilities("CapEff:") == none && capabilities("CapPrm:") == none &&
                     capabilities("CapInh:") == none && capabilities("CapAmb:") == none &&
                     ::setuid(12345) != 0;
            }),
            0);
}

TEST(Become, AsAUser_IsHimselfOnly) {
  EXPECT_EQ(in_child([] {
              if (::geteuid() == 0 && ::setresuid(12345, 12345, 12345) != 0) return false;
              const auto other = become(::geteuid() + 1);
              return become(::geteuid()).has_value() && !other && other.error().errnum == EACCES;
            }),
            0);
}

}  // namespace
}  // namespace nfsrdma::test
