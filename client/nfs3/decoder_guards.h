// What libnfs's XDR decoder does not look at before it believes it: lengths and counts of a reply, and how
// deep it calls itself for each entry of a list. (libnfs 4.0.0: a flavor count of 0x40000001 in MNT's answer
// writes behind the heap block that it gets for it, an opaque of 0x7fffffff bytes is read from unmapped
// memory, and a listing of a hundred thousand entries overflows a stack; seen 2026-11-26.)
//
// decoder_guards.cc defines the library's libnfs_zdr_string, _bytes, _opaque, _array and _pointer in the
// program, before the library's own in the dynamic linker's order, checks there what a message has room for
// (RFC 4506 sections 4.9 to 4.13, 4.19), and hands on what is left to the library's. It needs libnfs as a
// shared library, whose calls to itself go through its symbol table.
#pragma once

#include <cstdint>

namespace nfsrdma::nfs3 {

// Lists are one inside the other to the decoder: what one thread's stack (8 MiB) has room for several times
// over, and more entries than the largest reply that is asked for has (24 bytes at least each).
inline constexpr uint32_t kDeepestList = 8192;

// Links them in, and says whether the library calls them. Any thread.
bool decoder_is_guarded();

}  // namespace nfsrdma::nfs3
