// SPDX-License-Identifier: Apache-2.0
#include "cli/persist/sidebar.h"

#include <gtest/gtest.h>

namespace nfsrdma::cli {
namespace {

constexpr const char* kPlaces =
    "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<xbel "
    "xmlns:bookmark=\"http://www.freedesktop.org/standards/desktop-bookmarks\">\n"
    " <bookmark href=\"file:///home/anna\">\n  <title>Home</title>\n </bookmark>\n</xbel>\n";

TEST(Sidebar, Urls_AreEscaped) {
  EXPECT_EQ(file_url("/a b/ü%<"), "file:///a%20b/%C3%BC%25%3C");
}

TEST(Sidebar, Bookmarks_AreGivenBackByteForByte) {
  for (const char* before : {"", "file:///x X\n", "file:///x X", "file:///home/anna/files2 F\n"}) {
    const std::string with = with_bookmark(before, "/home/anna/files", "Our files");
    EXPECT_NE(with.find("file:///home/anna/files Our files"), std::string::npos);
    EXPECT_EQ(with_bookmark(with, "/home/anna/files", "Our files"), with) << "twice is once";
    EXPECT_EQ(without_bookmark(with, "/home/anna/files"), before);
  }
}

TEST(Sidebar, PlacesOfKde_AreGivenBackByteForByte) {
  const std::string with = with_place(kPlaces, "/home/anna/files", "Ours & <theirs>");
  EXPECT_NE(with.find("<title>Ours &amp; &lt;theirs&gt;</title>"), std::string::npos) << with;
  EXPECT_EQ(with_place(with, "/home/anna/files", "Ours & <theirs>"), with) << "twice is once";
  EXPECT_EQ(without_place(with, "/home/anna/files"), kPlaces);
  EXPECT_EQ(without_place(kPlaces, "/home/anna/files"), kPlaces);
}

TEST(Sidebar, WhatIsNoXbel_IsLeftAlone) {
  EXPECT_EQ(with_place("rubbish", "/x", "X"), "rubbish");
}

TEST(Sidebar, LineBreaksInNames_AreBlanks) {
  EXPECT_EQ(with_bookmark("", "/x", "a\nb"), "file:///x a b\n");
}

}  // namespace
}  // namespace nfsrdma::cli
