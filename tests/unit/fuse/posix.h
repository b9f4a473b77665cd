// SPDX-License-Identifier: Apache-2.0
// Assertions and helpers for code that runs in client processes.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>

#define EXPECT_POSIX(call) EXPECT_NE((call), -1) << #call << ": " << std::strerror(errno)

#define EXPECT_ERRNO(call, expected)                                     \
  do {                                                                   \
    errno = 0;                                                           \
    EXPECT_EQ((call), -1) << #call;                                      \
    EXPECT_EQ(errno, expected) << #call << ": " << std::strerror(errno); \
  } while (false)

namespace nfsrdma::fuse::test {

inline void write_file(const std::string& path, const std::string& data) {
  const int fd = ::open(path.c_str(), O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0644);
  ASSERT_GE(fd, 0) << path << ": " << std::strerror(errno);
  size_t at = 0;
  while (at < data.size()) {
    const ssize_t n = ::write(fd, data.data() + at, data.size() - at);
    ASSERT_GT(n, 0) << path << ": " << std::strerror(errno);
    at += static_cast<size_t>(n);
  }
  ASSERT_EQ(::close(fd), 0) << path << ": " << std::strerror(errno);
}

inline std::string read_file(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  EXPECT_GE(fd, 0) << path << ": " << std::strerror(errno);
  std::string data;
  char buffer[65536];
  ssize_t n = 0;
  while ((n = ::read(fd, buffer, sizeof buffer)) > 0) data.append(buffer, static_cast<size_t>(n));
  EXPECT_EQ(n, 0) << path << ": " << std::strerror(errno);
  ::close(fd);
  return data;
}

// Bytes that show a wrong offset.
inline std::string pattern(size_t size, unsigned seed = 1) {
  std::string s(size, '\0');
  uint64_t x = seed * 0x9E3779B97F4A7C15u + 1;
  for (size_t i = 0; i < size; ++i) {
    if (i % 8 == 0) x = x * 6364136223846793005u + 1442695040888963407u;
    s[i] = static_cast<char>(x >> (8 * (i % 8)));
  }
  return s;
}

}  // namespace nfsrdma::fuse::test
