// SPDX-License-Identifier: Apache-2.0
// Fuzz entry: the files in /proc that the daemon and the filer read: a caller's status, user maps, memory and
// control groups, limits, TCP sockets. A process chooses its own name, and so a part of some of them.
//
// Checked: there are no more groups than numbers in the text. A mapped user number maps back. Memory is what
// the text says, in whole KiB. A control group's path only leads downwards. A limit is one of those in the
// text.
//
// Input: one byte that selects the file; the rest is its text.
#include <algorithm>
#include <cstring>
#include <string>

#include "filer/links/peer_check.h"
#include "fuse/request_timeout.h"
#include "fuse/thread_status.h"
#include "tests/fuzz/text.h"
#include "transport/memory/available_memory.h"
#include "transport/runtime/user_ids.h"

namespace {

using namespace nfsrdma;  // NOLINT: used throughout this file
using fuzz::require;

void check_status(std::string_view text) {
  const auto caller = fuse::parse_caller_groups(text);
  require(!caller || caller->groups.size() <= text.size() / 2, "a group is a digit and a blank at least");
  const auto status = fuse::parse_thread_status(text);
  if (!status) return;
  require(caller.has_value(), "a status has all that groups need");
  const bool killed = (status->pending_signals & 1u << 8) != 0;
  require((fuse::signal_intent(*status) == fuse::SignalIntent::kFatal) == killed,
          "SIGKILL is what ends a thread");
}

void check_exiting(std::string_view text) {
  const bool exiting = fuse::parse_exiting(text);
  // Whatever name a process has chosen.
  require(fuse::parse_exiting("1 (" + std::string(text) + ") S 1 1 1 0 -1 4194304 0") == false,
          "a name is no flag");
  require(!exiting || text.find(')') != text.npos, "nothing is said without a name");
}

void check_map(std::string_view text) {
  const IdMap map = IdMap::parse(text);
  const UserIds ids(map, map);
  for (const uint32_t id : {0u, 1u, 1000u, 65534u, 65536u, 100000u, UINT32_MAX - 1, UINT32_MAX}) {
    const auto outer = map.outer(id), inner = map.inner(id);
    require(!outer || map.inner(*outer).has_value(), "who goes out can come back");
    require(!inner || map.outer(*inner).has_value(), "who comes in can go out");
    require(!map.identity() || id == UINT32_MAX || (outer == id && inner == id),
            "of the machine: as they are");
    require(!ids.mapped() || ids.outer_user(id) == outer.value_or(UserIds::kNobody), "others are nobody");
  }
  (void)filer::links::is_whole_map(text);
}

void check_memory(std::string_view text) {
  if (const auto memory = parse_meminfo(text))
    require(memory->total % 1024 == 0 && memory->available % 1024 == 0, "in KiB");
  const ResidentMemory resident = parse_rollup(text);
  require(resident.bytes % 1024 == 0 && resident.huge_bytes % 1024 == 0, "in KiB");
  const ProcessPages pages = parse_statm(text);
  require(pages.data == 0 || text.find(' ') != text.npos, "each field is its own");
}

void check_group(std::string_view text) {
  for (const bool unified : {false, true}) {
    const auto group = parse_membership(text, unified);
    if (!group) continue;
    require(group->starts_with('/') && group->find("/..") == group->npos, "below the hierarchy's root");
    require(group->find('\n') == group->npos && group->size() < text.size(), "and of one line");
  }
}

void check_timeouts(std::string_view text) {
  const std::string_view usual = fuzz::take_until(text, '\n');
  const uint32_t both = fuse::request_timeout(usual, text);
  const uint32_t first = fuse::request_timeout(usual, {}), second = fuse::request_timeout({}, text);
  require(both == first || both == second, "one of the two");
  require(both != 0 || (first == 0 && second == 0), "no limit where there is none");
}

void check_sockets(std::string_view text) {
  using asio::ip::make_address;
  const filer::links::Peer v4{{make_address("127.0.0.1"), 1000}, {make_address("127.0.0.1"), 2049}};
  const filer::links::Peer v6{{make_address("::1"), 1000}, {make_address("::1"), 2049}};
  require(!filer::links::socket_owner_in(text, false, v6), "no IPv6 address is in the table of IPv4's");
  for (const auto& [peer, is_v6] : {std::pair(v4, false), std::pair(v4, true), std::pair(v6, true)}) {
    const auto owner = filer::links::socket_owner_in(text, is_v6, peer);
    require(!owner || text.find("03E8") != text.npos, "a socket is found by its port");
    require(!owner || text.find(std::to_string(*owner)) != text.npos, "and its owner is in the text");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  constexpr void (*kChecks[])(std::string_view) = {check_status, check_exiting,  check_map,    check_memory,
                                                   check_group,  check_timeouts, check_sockets};
  kChecks[data[0] % std::size(kChecks)](fuzz::text_of(data + 1, size - 1));
  return 0;
}
