// SPDX-License-Identifier: Apache-2.0
// Listing: an open directory and the reply to its last READDIR. Its own mutex guards it and is held across
// READDIR. directory_service.cc says how it handles cookies that do not stay valid.
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

#include "client/api/filesystem.h"
#include "client/core/names/listed_entry.h"
#include "client/core/names/name_cache.h"
#include "transport/runtime/sync.h"

namespace nfsrdma::client {

struct Listing final : OpenDirectory {
  explicit Listing(NodeRef n) : node(std::move(n)) {}
  // Offsets of "." and "..". A server's cookies must differ from them.
  static constexpr uint64_t kAfterDot = 1, kAfterDotDot = 2;
  // The reply size that one READDIR asks for, in bytes.
  static constexpr uint32_t kReplyBytes = 128u << 10;
  uint32_t reply_bytes = kReplyBytes;

  const NodeRef node;
  AsyncMutex mutex;
  // The reply to the last READDIR: entries that follow cookie `from`.
  std::vector<ListedEntry> entries;
  uint64_t from = 0;
  bool filled = false, plus = false, eof = false;
  NameBelief belief;
  uint64_t change = 0;       // the directory's change attribute when the listing began
  nfs4::verifier4 verifier;  // for cookies other than 0
  size_t delivered = 0;      // number of `entries` given to the front end
  uint64_t beyond = 0;       // cookie to continue from if no entry is usable and more follow; else 0
  std::set<uint64_t> begun;  // cookies from which this listing's READDIRs started since the last seek
  // The entries given to the front end since the beginning, in order.
  struct Given {
    uint64_t cookie;
    size_t name;  // its hash
  };
  std::vector<Given> given;
  bool given_from_start = false;
  bool given_again = false;    // the server's cookies became invalid or go in a circle: entries may repeat
  bool circle_logged = false;  // the log has a message about the circle
  // The entries came with the opening, and nobody has read any of them.
  bool ahead = false;

  // The cookie of the next READDIR.
  uint64_t last_cookie() const { return entries.empty() ? beyond : entries.back().cookie; }
  bool all_given_until(uint64_t cookie) const {
    return given_from_start && !given.empty() && given.back().cookie == cookie;
  }
  // The next entry to give follows `cookie`.
  void seek(uint64_t cookie) {
    if (cookie == 0) {
      given.clear();
      given_from_start = true;
      given_again = false;
    }
    if (given.empty() || given.back().cookie == cookie) return;
    const auto at =
        std::find_if(given.rbegin(), given.rend(), [&](const Given& g) { return g.cookie == cookie; });
    given.erase(at.base(), given.end());
    if (given.empty()) given_from_start = false;
  }
  // Nobody will read the rest of the reply.
  void drop_answer() {
    filled = false;
    entries = {};
    delivered = 0;
  }
  // Restarts the listing at its first entry, from the present reply (`keep_answer`) or from a new READDIR.
  void start(bool keep_answer) {
    const bool repeats = given_again;
    filled = filled && keep_answer;
    ahead = false;
    seek(0);
    given_again = filled && repeats;
  }
  void give(const ListedEntry& entry) {
    delivered = static_cast<size_t>(&entry - entries.data()) + 1;
    given.push_back({entry.cookie, std::hash<std::string_view>{}(entry.name)});
  }

  // Takes the reply to a READDIR from `cookie`. Fails if the listing could not continue from the reply.
  Result<> answer(uint64_t cookie, bool with_attributes, std::vector<ListedEntry> answered, bool end,
                  NameBelief of);

  // Drops names that no file can have. The last remaining entry gets the reply's last cookie, so that the
  // listing continues behind the whole reply.
  void drop_impossible(std::vector<ListedEntry>& answered, bool end);

  // A READDIR from `cookie` is about to be sent.
  void begin(uint64_t cookie) {
    if (cookie == 0 || entries.empty() || entries.back().cookie != cookie) begun.clear();
    begun.insert(cookie);
  }
  // True: a READDIR after this reply would start where an earlier READDIR of this listing started. (Cookies
  // may repeat within a reply: nfs-ganesha's do when a directory changes meanwhile.)
  bool leads_back() const { return !eof && !entries.empty() && begun.contains(entries.back().cookie); }

  // True: the last name was given before. This detects a circle that is longer than a reply.
  bool ends_again() const {
    if (entries.empty()) return false;
    const size_t name = std::hash<std::string_view>{}(entries.back().name);
    return std::any_of(given.begin(), given.end(), [&](const Given& g) { return g.name == name; });
  }

  // Drops repeated names: a directory holds a name once. The last remaining entry gets the reply's last
  // cookie.
  void drop_repeats() {
    if (!repeats_names()) return;
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
    given_again = true;
  }
  // Compares the names' hashes, in one block of memory.
  bool repeats_names() const {
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
  // Ends the listing at `cookie`, because the server's cookies lead to nothing new. Returns true the first
  // time: then the caller logs it.
  bool end_at(uint64_t cookie);

  // The index in `entries` of the entry after `cookie`, if the present reply contains it.
  std::optional<size_t> position_after(uint64_t cookie, bool want_attributes) const {
    if (!filled || (want_attributes && !plus)) return std::nullopt;
    // By position first: cookies need not be unique.
    if (delivered != 0 && entries[delivered - 1].cookie == cookie) return delivered;
    if (cookie == from) return 0;
    const auto it =
        std::find_if(entries.begin(), entries.end(), [&](const auto& e) { return e.cookie == cookie; });
    if (it == entries.end()) return std::nullopt;
    return static_cast<size_t>(it - entries.begin()) + 1;
  }
};

}  // namespace nfsrdma::client
