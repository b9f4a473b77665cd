// SPDX-License-Identifier: Apache-2.0
// Listing: an open directory, and the last READDIR's answer of it. Guarded by its own mutex, which is held
// across READDIR. What the server's cookies may do to it is in fs_directory.cc.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "client/cache/caching_filesystem.h"

namespace nfsrdma::client {

struct Listing final : OpenDirectory {
  explicit Listing(NodeRef n) : node(std::move(n)) {}
  // Offsets of "." and "..", which no server's cookies may be.
  static constexpr uint64_t kAfterDot = 1, kAfterDotDot = 2;
  // What to ask of one READDIR.
  static constexpr uint32_t kReplyBytes = 128u << 10;
  uint32_t reply_bytes = kReplyBytes;

  const NodeRef node;
  AsyncMutex mutex;
  // The last READDIR's answer: entries that follow cookie `from`.
  std::vector<ListedEntry> entries;
  uint64_t from = 0;
  bool filled = false, plus = false, eof = false;
  NameBelief belief;
  uint64_t change = 0;       // of the directory when the listing began
  nfs4::verifier4 verifier;  // goes with cookies other than 0
  size_t delivered = 0;      // of `entries`
  uint64_t beyond = 0;       // where an answer goes on of which nothing is left, and which is not the last
  std::set<uint64_t> begun;  // where READDIRs of this listing began, without a jump between them
  // What was given out since the beginning, in order.
  struct Given {
    uint64_t cookie;
    size_t name;  // hashed
  };
  std::vector<Given> given;
  bool given_from_start = false;
  bool sift = false;  // the server's cookies ended, or go in a circle: what follows may have been given out
  bool told = false;  // of the circle
  // The answer at hand came with the opening, and nobody has read of it yet.
  bool ahead = false;

  // Where the next READDIR goes on; 0 behind an empty answer.
  uint64_t last_cookie() const { return entries.empty() ? beyond : entries.back().cookie; }
  bool all_given_until(uint64_t cookie) const {
    return given_from_start && !given.empty() && given.back().cookie == cookie;
  }
  // The next entry given out follows `cookie`.
  void seek(uint64_t cookie) {
    if (cookie == 0) {
      given.clear();
      given_from_start = true;
      sift = false;
    }
    if (given.empty() || given.back().cookie == cookie) return;
    const auto at =
        std::find_if(given.rbegin(), given.rend(), [&](const Given& g) { return g.cookie == cookie; });
    given.erase(at.base(), given.end());
    if (given.empty()) given_from_start = false;
  }
  // Nobody will read it.
  void drop_answer() {
    filled = false;
    entries = {};
    delivered = 0;
  }
  // The next entry given out is the first: of the answer at hand, or of one to come.
  void start(bool keep_answer) {
    const bool repeats = sift;
    filled = filled && keep_answer;
    ahead = false;
    seek(0);
    sift = filled && repeats;
  }
  void give(const ListedEntry& entry) {
    delivered = static_cast<size_t>(&entry - entries.data()) + 1;
    given.push_back({entry.cookie, std::hash<std::string_view>{}(entry.name)});
  }

  // The answer to a READDIR from `cookie`. An error when nobody could go on from it.
  Result<> answer(uint64_t cookie, bool with_attributes, std::vector<ListedEntry> answered, bool end,
                  NameBelief of);

  // Names that no name can be. What is left leads on as the whole answer does.
  void drop_impossible(std::vector<ListedEntry>& answered, bool end);

  // A READDIR from `cookie` comes next.
  void begin(uint64_t cookie) {
    if (cookie == 0 || entries.empty() || entries.back().cookie != cookie) begun.clear();
    begun.insert(cookie);
  }
  // Going on after the answer at hand leads to what this listing has had. (Cookies may come twice within an
  // answer: nfs-ganesha's do when a directory changes under it.)
  bool leads_back() const { return !eof && !entries.empty() && begun.contains(entries.back().cookie); }

  // The same, seen by the last name: a circle longer than an answer.
  bool ends_again() const {
    if (entries.empty()) return false;
    const size_t name = std::hash<std::string_view>{}(entries.back().name);
    return std::any_of(given.begin(), given.end(), [&](const Given& g) { return g.name == name; });
  }

  // A name is in a directory once. What is left leads on as the whole answer does.
  void drop_repeats() {
    if (!may_repeat()) return;
    std::unordered_set<std::string_view> names;
    bool repeats = false;
    for (ListedEntry& e : entries) {
      if (names.insert(e.name).second) continue;
      e.name.clear();
      repeats = true;
    }
    if (!repeats) return;
    const uint64_t last = entries.back().cookie;
    std::erase_if(entries, [](const ListedEntry& e) { return e.name.empty(); });
    entries.back().cookie = last;
    sift = true;
  }
  // By the names' hashes, in one piece of memory.
  bool may_repeat() const {
    std::vector<size_t> hashes(entries.size());
    std::ranges::transform(entries, hashes.begin(), std::hash<std::string_view>{}, &ListedEntry::name);
    std::ranges::sort(hashes);
    return std::ranges::adjacent_find(hashes) != hashes.end();
  }
  std::unordered_set<size_t> given_names() const {
    std::unordered_set<size_t> names;
    for (const Given& g : given) names.insert(g.name);
    return names;
  }
  void drop_given() {
    const std::unordered_set<size_t> names = given_names();
    std::erase_if(
        entries, [&](const ListedEntry& e) { return names.contains(std::hash<std::string_view>{}(e.name)); });
  }
  // The server's cookies lead nowhere else: what they led to is the listing. Says so in the log, once.
  // True the first time: it is to be told.
  bool end_at(uint64_t cookie);

  // Where in `entries` the one after `cookie` is, if the answer at hand covers that.
  std::optional<size_t> position_after(uint64_t cookie, bool want_attributes) const {
    if (!filled || (want_attributes && !plus)) return std::nullopt;
    // By place before by cookie, which need not be unique.
    if (delivered != 0 && entries[delivered - 1].cookie == cookie) return delivered;
    if (cookie == from) return 0;
    const auto it =
        std::find_if(entries.begin(), entries.end(), [&](const auto& e) { return e.cookie == cookie; });
    if (it == entries.end()) return std::nullopt;
    return static_cast<size_t>(it - entries.begin()) + 1;
  }
};

}  // namespace nfsrdma::client
