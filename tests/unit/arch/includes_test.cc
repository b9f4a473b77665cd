// SPDX-License-Identifier: Apache-2.0
// The rules of the source tree (docs/dev/overview.md): layers depend in one direction, and so do the rooms of
// a layer; only fuse/ includes libfuse's header, and no file is too long.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace nfsrdma {
namespace {

namespace fs = std::filesystem;

const fs::path kRoot = NFSRDMA_SOURCE_DIR;
constexpr size_t kMaxLines = 800;

// xdr <- transport <- client <- fuse <- cli, and transport <- filer <- cli: what each layer may include.
const std::map<std::string, std::set<std::string>> kMayInclude = {
    {"xdr", {"xdr"}},
    {"transport", {"transport", "xdr"}},
    {"client", {"client", "transport", "xdr"}},
    {"fuse", {"fuse", "client", "transport", "xdr"}},
    {"cli", {"cli", "fuse", "client", "filer", "transport", "xdr"}},
    {"filer", {"filer", "transport", "xdr"}},
};

// The rooms of each layer, from the ground up. A room may include itself and the rooms before it. What stands
// in the same row does not know each other.
const std::map<std::string, std::vector<std::set<std::string>>> kRooms = {
    {"xdr", {{"xdr/support"}, {"xdr"}, {"xdr/nfs4", "xdr/rpcrdma"}}},
    {"transport",
     {{"transport/runtime", "transport/status", "transport/security/gss"},
      {"transport/memory"},
      {"transport/net"},
      {"transport/rpc", "transport/fabric", "transport/tls"},
      {"transport/tcp", "transport/rdma", "transport/fabric/iwarp", "transport/fabric/verbs",
       "transport/security"}}},
    {"client",
     {{"client/api"},
      {"client/core/access", "client/core/attributes", "client/core/read", "client/core/write"},
      {"client/core/names"},
      {"client/core/nodes"},
      {"client/core"},
      {"client/nfs3", "client/nfs4"},
      {"client/nfs4/session", "client/nfs4/delegations"},
      {"client/nfs4/state"},
      {"client/nfs4/callbacks"},
      {"client/nfs4/ops"}}},
    {"fuse", {{"fuse"}}},
    {"filer",
     {{"filer/tree"}, {"filer/links"}, {"filer/state"}, {"filer/security"}, {"filer/nfs"}, {"filer"}}},
    {"cli",
     {{"cli/support"},
      {"cli/control", "cli/options", "cli/notices"},
      {"cli/persist", "cli/server", "cli/stats", "cli/trace"},
      {"cli/mount", "cli/bench", "cli/top"},
      {"cli/doctor"},
      {"cli/tool"},
      {"cli", "cli/filer"},
      {"cli/pages"}}},
};

std::vector<fs::path> files_below(const fs::path& directory, const std::set<std::string>& extensions) {
  std::vector<fs::path> found;
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    if (entry.is_regular_file() && extensions.contains(entry.path().extension().string()))
      found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::vector<std::string> lines_of(const fs::path& file) {
  std::ifstream in(file);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

struct Include {
  std::string where;  // file:line
  std::string name;   // as written, without its quotes
  bool quoted = false;
};

std::vector<Include> includes_of(const fs::path& file) {
  std::vector<Include> found;
  size_t number = 0;
  for (const std::string& line : lines_of(file)) {
    ++number;
    size_t at = line.find_first_not_of(" \t");
    if (at == std::string::npos || line[at] != '#') continue;
    at = line.find_first_not_of(" \t", at + 1);
    if (at == std::string::npos || line.compare(at, 7, "include") != 0) continue;
    const size_t open = line.find_first_of("\"<", at);
    if (open == std::string::npos) continue;
    const size_t close = line.find_first_of("\">", open + 1);
    if (close == std::string::npos) continue;
    found.push_back({fs::relative(file, kRoot).string() + ":" + std::to_string(number),
                     line.substr(open + 1, close - open - 1), line[open] == '"'});
  }
  return found;
}

std::vector<Include> includes_of_layer(const std::string& layer) {
  std::vector<Include> found;
  for (const fs::path& file : files_below(kRoot / layer, {".cc", ".h", ".in"})) {
    const auto more = includes_of(file);
    found.insert(found.end(), more.begin(), more.end());
  }
  return found;
}

TEST(Layers, Includes_PointOneWay) {
  for (const auto& [layer, allowed] : kMayInclude) {
    size_t seen = 0;
    for (const Include& include : includes_of_layer(layer)) {
      if (!include.quoted) {
        const std::string top = include.name.substr(0, include.name.find('/'));
        EXPECT_FALSE(kMayInclude.contains(top) && fs::exists(kRoot / include.name))
            << include.where << ": our own headers are included with quotes: " << include.name;
        continue;
      }
      ++seen;
      const std::string top = include.name.substr(0, include.name.find('/'));
      EXPECT_TRUE(allowed.contains(top))
          << include.where << ": " << layer << " must not know " << include.name;
      EXPECT_TRUE(fs::exists(kRoot / include.name) || fs::exists(kRoot / (include.name + ".in")))
          << include.where << ": paths are from the project's root: " << include.name;
    }
    EXPECT_GT(seen, 0u) << layer << " was not read";
  }
}

TEST(Rooms, OfALayer_AreBuiltOnThoseBefore) {
  ASSERT_EQ(kRooms.size(), kMayInclude.size());
  for (const auto& [layer, rows] : kRooms) {
    std::map<std::string, size_t> row_of;
    for (size_t row = 0; row < rows.size(); ++row) {
      for (const std::string& room : rows[row]) {
        EXPECT_TRUE(fs::is_directory(kRoot / room)) << room;
        row_of[room] = row;
      }
    }
    for (const Include& include : includes_of_layer(layer)) {
      if (!include.quoted || !include.name.starts_with(layer + "/")) continue;
      const std::string here = fs::path(include.where).parent_path().string();
      const std::string there = fs::path(include.name).parent_path().string();
      ASSERT_TRUE(row_of.contains(here)) << here << " has no place in kRooms";
      ASSERT_TRUE(row_of.contains(there)) << there << " has no place in kRooms";
      EXPECT_TRUE(here == there || row_of[there] < row_of[here])
          << include.where << ": " << here << " must not know " << include.name;
    }
  }
}

// client/api is the client's public face.
TEST(Rooms, OfTheClient_OnlyTheApiIsKnownOutside) {
  size_t seen = 0;
  for (const auto& [layer, allowed] : kMayInclude) {
    if (layer == "client") continue;
    for (const Include& include : includes_of_layer(layer)) {
      if (!include.name.starts_with("client/")) continue;
      ++seen;
      EXPECT_TRUE(include.name.starts_with("client/api/")) << include.where << ": " << include.name;
    }
  }
  EXPECT_GT(seen, 0u);
}

TEST(Layers, TheFiler_IsKnownToItsOwnCommandOnly) {
  for (const Include& include : includes_of_layer("cli")) {
    if (!include.name.starts_with("filer/")) continue;
    EXPECT_TRUE(include.where.starts_with("cli/filer/")) << include.where << ": " << include.name;
  }
}

TEST(Layers, Libfuse_IsKnownToFuseOnly) {
  const auto is_libfuse = [](const Include& include) {
    const std::string name = fs::path(include.name).filename().string();
    return !include.quoted && name.starts_with("fuse") && name.ends_with(".h");
  };
  for (const auto& [layer, allowed] : kMayInclude) {
    const auto includes = includes_of_layer(layer);
    if (layer == "fuse") {
      EXPECT_TRUE(std::any_of(includes.begin(), includes.end(), is_libfuse));
      continue;
    }
    for (const Include& include : includes)
      EXPECT_FALSE(is_libfuse(include)) << include.where << ": " << include.name;
  }
}

TEST(Layers, Libnfs_IsKnownToNfs3Only) {
  size_t seen = 0;
  for (const auto& [layer, allowed] : kMayInclude) {
    for (const Include& include : includes_of_layer(layer)) {
      if (include.quoted || !include.name.starts_with("nfsc/")) continue;
      ++seen;
      EXPECT_TRUE(include.where.starts_with("client/nfs3/")) << include.where << ": " << include.name;
    }
  }
  EXPECT_GT(seen, 0u);
}

// Elsewhere its types are opaque, and so is what a caller may do with them.
TEST(Layers, Kerberos_IsKnownToItsOwnFolderOnly) {
  size_t seen = 0;
  for (const auto& [layer, allowed] : kMayInclude) {
    for (const Include& include : includes_of_layer(layer)) {
      const bool library =
          !include.quoted && (include.name.starts_with("gssapi") || include.name.starts_with("krb5"));
      if (!library && include.name != "transport/security/gss/library.h") continue;
      ++seen;
      EXPECT_TRUE(include.where.starts_with("transport/security/gss/"))
          << include.where << ": " << include.name;
      const std::string file = include.where.substr(0, include.where.find(':'));
      EXPECT_TRUE(file.ends_with(".cc") || file == "transport/security/gss/library.h") << include.where;
    }
  }
  EXPECT_GT(seen, 0u);
}

TEST(Layers, OpenSsl_IsKnownToItsOwnFolderOnly) {
  size_t seen = 0;
  for (const auto& [layer, allowed] : kMayInclude) {
    for (const Include& include : includes_of_layer(layer)) {
      if (include.quoted || !include.name.starts_with("openssl/")) continue;
      ++seen;
      EXPECT_TRUE(include.where.starts_with("transport/tls/")) << include.where << ": " << include.name;
      EXPECT_NE(include.where.find(".cc:"), std::string::npos) << include.where << ": " << include.name;
    }
  }
  EXPECT_GT(seen, 0u);
}

TEST(Layers, TheProduct_IncludesNothingOfTheTests) {
  for (const auto& [layer, allowed] : kMayInclude) {
    for (const Include& include : includes_of_layer(layer)) {
      EXPECT_EQ(include.name.find("gtest"), std::string::npos) << include.where;
      EXPECT_FALSE(include.name.starts_with("tests/")) << include.where;
    }
  }
}

TEST(Files, NoneIsLongerThanCanBeRead) {
  size_t seen = 0;
  for (const char* directory : {"xdr", "transport", "client", "fuse", "cli", "filer", "tests"}) {
    for (const fs::path& file : files_below(kRoot / directory, {".cc", ".h", ".py"})) {
      ++seen;
      EXPECT_LE(lines_of(file).size(), kMaxLines) << fs::relative(file, kRoot);
    }
  }
  EXPECT_GT(seen, 100u);
}

// A test waits for a condition with a deadline (tests/unit/transport/support/eventually.h), or for timers of
// a loop (let_pass() in run_on.h).
TEST(Files, NoUnitTest_SleepsByItself) {
  const std::regex sleeps(R"((sleep_(for|until)|\b(usleep|nanosleep|clock_nanosleep)) *\()");
  const fs::path helper = kRoot / "tests/unit/transport/support/eventually.h";
  size_t in_helper = 0;
  for (const char* directory : {"tests/unit", "tests/property", "tests/golden"}) {
    for (const fs::path& file : files_below(kRoot / directory, {".cc", ".h"})) {
      size_t number = 0;
      for (const std::string& line : lines_of(file)) {
        ++number;
        if (!std::regex_search(line, sleeps)) continue;
        in_helper += file == helper ? 1 : 0;
        EXPECT_EQ(file, helper) << "line " << number;
      }
    }
  }
  EXPECT_EQ(in_helper, 1u);
}

TEST(Files, EveryHeader_SaysWhatItIsAndIsReadOnce) {
  for (const char* directory : {"xdr", "transport", "client", "fuse", "cli", "filer"}) {
    for (const fs::path& file : files_below(kRoot / directory, {".h"})) {
      const auto lines = lines_of(file);
      ASSERT_FALSE(lines.empty()) << file;
      EXPECT_TRUE(lines[0].starts_with("//")) << fs::relative(file, kRoot);
      EXPECT_NE(std::find(lines.begin(), lines.end(), "#pragma once"), lines.end())
          << fs::relative(file, kRoot);
    }
  }
}

// With g++ 12 <string> and others include <cstdint>; with g++ 14 they do not.
TEST(Files, EveryHeader_IncludesTheFixedWidthTypesItUses) {
  const std::regex fixed_width(R"(\bu?int(_fast|_least)?(8|16|32|64|ptr|max)_t\b)");
  size_t seen = 0;
  for (const char* directory : {"xdr", "transport", "client", "fuse", "cli", "filer", "tests"}) {
    for (const fs::path& file : files_below(kRoot / directory, {".h"})) {
      const auto lines = lines_of(file);
      const bool uses = std::any_of(lines.begin(), lines.end(), [&](const std::string& line) {
        return std::regex_search(line.substr(0, line.find("//")), fixed_width);
      });
      if (!uses) continue;
      ++seen;
      const auto includes = includes_of(file);
      EXPECT_TRUE(std::any_of(includes.begin(), includes.end(),
                              [](const Include& include) { return include.name == "cstdint"; }))
          << fs::relative(file, kRoot) << " uses fixed-width types and does not include <cstdint>";
    }
  }
  EXPECT_GT(seen, 100u);
}

}  // namespace
}  // namespace nfsrdma
