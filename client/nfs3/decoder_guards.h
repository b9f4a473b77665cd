// SPDX-License-Identifier: Apache-2.0
// Checks that libnfs's XDR decoder lacks: the lengths and counts of a reply, the recursion depth (one level
// per entry of a list), and the memory for the fragments of an endless record. What libnfs 4.0.0 does without
// them (seen 2026-11-26): with a flavor count of 0x40000001 in MNT's reply it writes beyond its heap block;
// with an opaque of 0x7fffffff bytes it reads unmapped memory; a listing of a hundred thousand entries
// overflows a stack. By its code, it keeps fragments until the last one arrives, and copies 4 GiB of them
// into a block whose size has wrapped in 32 bits.
//
// decoder_guards.cc defines the library's libnfs_zdr_string, _bytes, _opaque, _array and _pointer in the
// program, so the dynamic linker finds them before the library's own. They check whether the message has room
// for the data (RFC 4506 sections 4.9 to 4.13, 4.19), and then call the library's function. The same holds
// for rpc_add_fragment (RFC 5531 section 11). This needs libnfs as a shared library whose internal calls go
// through its symbol table.
#pragma once

#include <cstddef>
#include <cstdint>

namespace nfsrdma::client::nfs3 {

// The decoder recurses once per list entry. A thread's stack (8 MiB) has room for several times this depth.
// The largest reply that we request has fewer entries (at least 24 bytes each).
inline constexpr uint32_t kDeepestList = 8192;

// The limit for the fragments of a record before its last one, each with its overhead. The library requests
// READs of at most 1 MiB and accepts no larger fragment.
inline constexpr size_t kMostFragmentBytes = (1u << 20) + (64u << 10);
inline constexpr size_t kFragmentCost = 256;

// One per connection.
struct KeptFragments {
  size_t bytes = 0;
};

// Lives around each call of rpc_service(): counts in `kept` what the call adds to a record on this thread. If
// that is too much, the connection ends.
class CountFragments {
 public:
  explicit CountFragments(KeptFragments& kept);
  ~CountFragments();
  CountFragments(const CountFragments&) = delete;
  CountFragments& operator=(const CountFragments&) = delete;
};

// True if the library calls the functions of decoder_guards.cc; also links them into the program. Any thread.
bool decoder_is_guarded();

}  // namespace nfsrdma::client::nfs3
