// SPDX-License-Identifier: Apache-2.0
// What libnfs's XDR decoder does not look at before it believes it: lengths and counts of a reply, and how
// deep it calls itself for each entry of a list; and how much of a record that has no end it keeps. (libnfs
// 4.0.0: a flavor count of 0x40000001 in MNT's answer writes behind the heap block that it gets for it, an
// opaque of 0x7fffffff bytes is read from unmapped memory, and a listing of a hundred thousand entries
// overflows a stack, seen 2026-11-26; fragments are kept until the last one comes, and 4 GiB of them are
// copied into what is left of that in 32 bits, by its code.)
//
// decoder_guards.cc defines the library's libnfs_zdr_string, _bytes, _opaque, _array and _pointer in the
// program, before the library's own in the dynamic linker's order, checks there what a message has room for
// (RFC 4506 sections 4.9 to 4.13, 4.19), and hands on what is left to the library's; and likewise its
// rpc_add_fragment (RFC 5531 section 11). It needs libnfs as a shared library, whose calls to itself go
// through its symbol table.
#pragma once

#include <cstddef>
#include <cstdint>

namespace nfsrdma::nfs3 {

// Lists are one inside the other to the decoder: what one thread's stack (8 MiB) has room for several times
// over, and more entries than the largest reply that is asked for has (24 bytes at least each).
inline constexpr uint32_t kDeepestList = 8192;

// What the fragments of a record may take before its last one, each with the room that it takes beside its
// bytes: the library asks for READs of 1 MiB at most, and takes no fragment that is larger.
inline constexpr size_t kMostFragmentBytes = (1u << 20) + (64u << 10);
inline constexpr size_t kFragmentCost = 256;

// Of one connection.
struct KeptFragments {
  size_t bytes = 0;
};

// Around each call of rpc_service(): what it adds to a record on this thread is counted in `kept`, and ends
// the connection where that is too much.
class CountFragments {
 public:
  explicit CountFragments(KeptFragments& kept);
  ~CountFragments();
  CountFragments(const CountFragments&) = delete;
  CountFragments& operator=(const CountFragments&) = delete;
};

// Links them in, and says whether the library calls them. Any thread.
bool decoder_is_guarded();

}  // namespace nfsrdma::nfs3
