// SPDX-License-Identifier: Apache-2.0
#include "cli/options/log_setup.h"

#include <gtest/gtest.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/unit/cli/temp_directory.h"

namespace nfsrdma::cli {
namespace {

std::string read_file(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

LogSettings to_file(const std::string& file, LogFormat format = LogFormat::kText) {
  return {LogTarget::kFile, file, LogLevel::kInfo, format, "/mnt"};
}

TEST(ProcessLog, File_GetsLinesOfItsLevel) {
  const TempDirectory temp;
  ProcessLog log;
  ASSERT_TRUE(log.apply(to_file(temp.path("log"))));
  spdlog::info("one {}", 1);
  spdlog::debug("hidden");
  set_log_level(LogLevel::kDebug);
  EXPECT_EQ(log_level(), LogLevel::kDebug);
  spdlog::debug("shown");
  const std::string text = read_file(temp.path("log"));
  EXPECT_NE(text.find("info    /mnt: one 1\n"), std::string::npos) << text;
  EXPECT_NE(text.find("debug   /mnt: shown\n"), std::string::npos) << text;
  EXPECT_EQ(text.find("hidden"), std::string::npos) << text;
  struct stat st {};
  ASSERT_EQ(stat(temp.path("log").c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0600u);
}

TEST(ProcessLog, RotatedFile_IsOpenedAnew) {
  const TempDirectory temp;
  ProcessLog log;
  ASSERT_TRUE(log.apply(to_file(temp.path("log"))));
  spdlog::info("before");
  ASSERT_EQ(rename(temp.path("log").c_str(), temp.path("log.1").c_str()), 0);
  ASSERT_TRUE(log.apply(to_file(temp.path("log"))));
  spdlog::info("after");
  EXPECT_NE(read_file(temp.path("log.1")).find("before"), std::string::npos);
  EXPECT_NE(read_file(temp.path("log")).find("after"), std::string::npos);
  EXPECT_EQ(read_file(temp.path("log")).find("before"), std::string::npos);
}

TEST(ProcessLog, TargetThatCannotBeOpened_ChangesNothing) {
  const TempDirectory temp;
  ProcessLog log;
  ASSERT_TRUE(log.apply(to_file(temp.path("log"))));
  const auto failed = log.apply(to_file(temp.path("no/such/directory/log")));
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().exit_code, 2);
  spdlog::info("still here");
  EXPECT_NE(read_file(temp.path("log")).find("still here"), std::string::npos);
}

TEST(ProcessLog, ThreadsThatLog_SurviveAChange) {
  const TempDirectory temp;
  ProcessLog log;
  ASSERT_TRUE(log.apply(to_file(temp.path("log"))));
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      while (!stop) spdlog::info("line");
    });
  }
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(log.apply(
        to_file(temp.path(i % 2 == 0 ? "a" : "b"), i % 3 == 0 ? LogFormat::kJson : LogFormat::kText)));
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
}

TEST(LogLine, Json_IsOneObject) {
  const std::string line =
      format_log_line(LogFormat::kJson, true, "info", "/m", "a \"quote\"\nand \xff bytes");
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const auto json = nlohmann::json::parse(line);
  EXPECT_EQ(json["level"], "info");
  EXPECT_EQ(json["mount_point"], "/m");
  EXPECT_TRUE(json["message"].get<std::string>().starts_with("a \"quote\"\nand "));
  EXPECT_TRUE(json.contains("time"));
}

TEST(LogLine, ControlCharacters_AreMadeVisible) {
  EXPECT_EQ(format_log_line(LogFormat::kText, false, "info", "/m\n", "a\x1b[2Jb\r\nforged: line"),
            "/m\\x0a: a\\x1b[2Jb\\x0d\\x0aforged: line");
}

TEST(LogSettings, DefaultTarget_DependsOnTheForeground) {
  EXPECT_EQ(log_settings({}, "/m", true).target, LogTarget::kStderr);
  EXPECT_EQ(log_settings({}, "/m", false).target, LogTarget::kSyslog);
  MountOptions options;
  options.log_target = LogTarget::kJournal;
  EXPECT_EQ(log_settings(options, "/m", true).target, LogTarget::kJournal);
}

TEST(LogLevels, Cycle_GoesRound) {
  EXPECT_EQ(next_log_level(LogLevel::kError), LogLevel::kInfo);
  EXPECT_EQ(next_log_level(LogLevel::kInfo), LogLevel::kDebug);
  EXPECT_EQ(next_log_level(LogLevel::kDebug), LogLevel::kTrace);
  EXPECT_EQ(next_log_level(LogLevel::kTrace), LogLevel::kInfo);
}

}  // namespace
}  // namespace nfsrdma::cli
