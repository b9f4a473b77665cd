// SPDX-License-Identifier: Apache-2.0
// NFSRDMA_CHECK(condition): an assertion that stays in a release build.
//
// Use it for a condition that guards memory or the protocol: if that does not hold, going on would write to
// the wrong memory or send something that nobody requested. The program then ends with one line that names
// the condition and the place. What a peer or a user can cause is an Error, never a check.
#pragma once

namespace nfsrdma {

[[noreturn]] void check_failed(const char* condition, const char* file, int line);

}  // namespace nfsrdma

#define NFSRDMA_CHECK(condition)                        \
  (__builtin_expect(static_cast<bool>(condition), true) \
       ? void()                                         \
       : ::nfsrdma::check_failed(#condition, __FILE__, __LINE__))
