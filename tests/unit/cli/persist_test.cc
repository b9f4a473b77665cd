// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "cli/persist/fstab.h"
#include "cli/persist/login.h"
#include "cli/persist/persist.h"
#include "cli/support/mountinfo.h"
#include "tests/unit/cli/temp_directory.h"

namespace nfsrdma::cli {
namespace {

constexpr const char* kOthers =
    "# /etc/fstab\nUUID=1 / ext4 defaults 0 1\n\n  /dev/sdb1\t/data xfs noauto 0 0 # mine\n";

std::string contents(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(Fstab, Line_HasWhatABootNeeds) {
  EXPECT_EQ(fstab_line("filer:/e", "/mnt", "rw,soft"),
            "filer:/e /mnt nfsrdma-fuse rw,soft,_netdev,nofail 0 0");
  EXPECT_EQ(fstab_line("filer:/e", "/mnt", ""), "filer:/e /mnt nfsrdma-fuse _netdev,nofail 0 0");
  EXPECT_EQ(fstab_line("filer:/e", "/mnt", "nofail,_netdev"),
            "filer:/e /mnt nfsrdma-fuse nofail,_netdev 0 0");
}

TEST(Fstab, SpecialCharacters_AreEscaped) {
  EXPECT_EQ(fstab_line("filer:/a b", "/m\tn\\o#p", "log=/x y"),
            "filer:/a\\040b /m\\011n\\134o\\043p nfsrdma-fuse log=/x\\040y,_netdev,nofail 0 0");
  for (const char* text : {"/a b", "\\040", "/\t\n#\\", "plain"})
    EXPECT_EQ(unescape_octal(escape_fstab(text)), text);
}

TEST(Fstab, Removal_GivesBackEveryByte) {
  for (const char* text : {kOthers, "", "UUID=1 / ext4 defaults 0 1", "\n"}) {
    const std::string before = text;
    const std::string line = fstab_line("filer:/e", "/mnt/a b", "");
    const auto with = with_fstab_line(before, "/mnt/a b", line);
    ASSERT_TRUE(with) << with.error().text;
    EXPECT_NE(with->find(line), std::string::npos);
    EXPECT_EQ(without_fstab_lines(*with, "/mnt/a b"), before);
    EXPECT_EQ(without_fstab_lines(*with, "/mnt/a b/"), before);
  }
}

TEST(Fstab, Twice_IsOnce) {
  const std::string line = fstab_line("filer:/e", "/mnt", "");
  const std::string once = *with_fstab_line(kOthers, "/mnt", line);
  EXPECT_EQ(*with_fstab_line(once, "/mnt", line), once);
  const std::string other = fstab_line("filer:/f", "/mnt", "ro");
  EXPECT_EQ(*with_fstab_line(once, "/mnt", other), kOthers + other + "\n");
}

TEST(Fstab, AnotherTypesLine_IsLeftAlone) {
  EXPECT_FALSE(with_fstab_line(kOthers, "/data", fstab_line("filer:/e", "/data", "")));
  EXPECT_EQ(without_fstab_lines(kOthers, "/data"), kOthers);
}

TEST(Fstab, Comments_AreNoLines) {
  const std::string text = "# filer:/e /mnt nfsrdma-fuse rw 0 0\n";
  EXPECT_EQ(without_fstab_lines(text, "/mnt"), text);
}

TEST(Fstab, Rewriting_KeepsModeAndLink) {
  const TempDirectory directory;
  const std::string file = directory.path() + "/fstab", link = directory.path() + "/link";
  std::ofstream(file) << "a\n";
  chmod(file.c_str(), 0640);
  std::filesystem::create_symlink(file, link);
  ASSERT_TRUE(
      rewrite_file(link, [](const std::string& text) -> Outcome<std::string> { return text + "b\n"; }));
  EXPECT_EQ(contents(file), "a\nb\n");
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  struct stat st {};
  stat(file.c_str(), &st);
  EXPECT_EQ(st.st_mode & 07777, 0640u);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory.path()), {}), 2);
}

TEST(Fstab, WhatSomebodyElseChangesMeanwhile_IsNotLost) {
  const TempDirectory directory;
  const std::string file = directory.path() + "/fstab";
  std::ofstream(file) << "a\n";
  EXPECT_FALSE(rewrite_file(file, [&](const std::string& text) -> Outcome<std::string> {
    std::ofstream(file) << "another's\n";
    return text + "b\n";
  }));
  EXPECT_EQ(contents(file), "another's\n");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory.path()), {}), 1);
}

TEST(Persist, OptionLists_AreReadBack) {
  const std::vector<RawOption> options{{"ro", {}}, {"log", "/a,b"}, {"conf", "/c\\d"}, {"rsize", "4096"}};
  EXPECT_EQ(list_of(options), "ro,log=\"/a,b\",conf=/c\\\\d,rsize=4096");
  EXPECT_EQ(*split_options(list_of(options)), options);
}

// --- mounts of a user

LoginPlaces places_in(const TempDirectory& directory, bool unit) {
  LoginPlaces places{
      "/home/anna", directory.path() + "/config", {directory.path() + "/units"}, "/usr/bin/nfsrdma-fuse"};
  std::filesystem::create_directories(places.units.front());
  if (unit) std::ofstream(places.units.front() + "/nfsrdma-fuse@.service") << "[Unit]\n";
  return places;
}

size_t files_in(const std::string& path) {
  size_t n = 0;
  std::error_code none;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(path, none))
    n += entry.is_directory() && !entry.is_symlink() ? 0 : 1;
  return n;
}

TEST(Login, WithTheUnit_ConfigurationAndLinkAreWritten) {
  const TempDirectory directory;
  const LoginPlaces places = places_in(directory, true);
  ASSERT_TRUE(add_login_mount(places, {"filer:/home", "/home/anna/my files", "rw"}));
  EXPECT_EQ(contents(places.config + "/nfsrdma-fuse/my_files.conf"),
            "SOURCE=filer:/home\nDIRECTORY=\"/home/anna/my files\"\nOPTIONS=rw\n");
  const std::string link = places.config + "/systemd/user/default.target.wants/nfsrdma-fuse@my_files.service";
  EXPECT_EQ(std::filesystem::read_symlink(link), places.units.front() + "/nfsrdma-fuse@.service");
  ASSERT_TRUE(add_login_mount(places, {"filer:/home", "/home/anna/my files", "ro"}));
  EXPECT_EQ(files_in(places.config), 2u) << "twice is once";
  EXPECT_EQ(remove_login_mount(places, "/home/anna/my files"), true);
  EXPECT_EQ(files_in(places.config), 0u);
  EXPECT_EQ(remove_login_mount(places, "/home/anna/my files"), false);
}

TEST(Login, WithoutTheUnit_TheDesktopStartsIt) {
  const TempDirectory directory;
  const LoginPlaces places = places_in(directory, false);
  ASSERT_TRUE(add_login_mount(places, {"filer:/home", "/home/anna/100% \"$mine\"", "ro"}));
  const std::string entry = contents(places.config + "/autostart/nfsrdma-fuse-100____mine_.desktop");
  EXPECT_NE(entry.find("Exec=\"/usr/bin/nfsrdma-fuse\" mount -o \"ro\" -- \"filer:/home\" \"/home/anna/100%% "
                       "\\\\\"\\\\$mine\\\\\"\"\n"),
            std::string::npos)
      << entry;
  EXPECT_EQ(remove_login_mount(places, "/home/anna/100% \"$mine\""), true);
  EXPECT_EQ(files_in(places.config), 0u);
}

TEST(Login, DirectoriesOfOneName_HaveInstancesOfTheirOwn) {
  const TempDirectory directory;
  const LoginPlaces places = places_in(directory, true);
  ASSERT_TRUE(add_login_mount(places, {"filer:/a", "/a/files", ""}));
  ASSERT_TRUE(add_login_mount(places, {"filer:/b", "/b/files", ""}));
  EXPECT_EQ(files_in(places.config), 4u);
  EXPECT_EQ(remove_login_mount(places, "/a/files"), true);
  EXPECT_EQ(contents(places.config + "/nfsrdma-fuse/files-2.conf"), "SOURCE=filer:/b\nDIRECTORY=/b/files\n");
}

TEST(Login, ADirectoryBelowHome_IsFoundByItsWholePath) {
  const TempDirectory directory;
  const LoginPlaces places = places_in(directory, true);
  directory.write("config/nfsrdma-fuse/mine.conf", "SOURCE=filer:/home\nDIRECTORY=files\n");
  EXPECT_EQ(remove_login_mount(places, "/home/anna/files"), true);
  EXPECT_EQ(files_in(places.config), 0u);
}

TEST(Login, Values_SurviveQuoting) {
  for (const char* text : {"plain", "with blank", "\"quoted\"", "a\\b$c`d", ""})
    EXPECT_EQ(unquote_environment(quote_environment(text)), text);
}

TEST(Login, LineBreaks_AreRefused) {
  const TempDirectory directory;
  EXPECT_FALSE(add_login_mount(places_in(directory, true), {"filer:/a", "/a\nOPTIONS=x", ""}));
}

}  // namespace
}  // namespace nfsrdma::cli
