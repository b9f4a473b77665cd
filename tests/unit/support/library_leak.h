// SPDX-License-Identifier: Apache-2.0
// LibraryLeak: while it exists, LeakSanitizer does not count what is allocated. For calls at which a library
// is known to leak: krb5 1.20 leaks the principal that it looked for in a keytab without such a key, some 100
// bytes an attempt. Does nothing in builds without LeakSanitizer. One thread.
#pragma once

extern "C" {
[[gnu::weak]] void __lsan_disable();
[[gnu::weak]] void __lsan_enable();
}

namespace nfsrdma::test {

class LibraryLeak {
 public:
  LibraryLeak() {
    if (__lsan_disable != nullptr) __lsan_disable();
  }
  ~LibraryLeak() {
    if (__lsan_enable != nullptr) __lsan_enable();
  }
  LibraryLeak(const LibraryLeak&) = delete;
  LibraryLeak& operator=(const LibraryLeak&) = delete;
};

}  // namespace nfsrdma::test
