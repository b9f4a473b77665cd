// SPDX-License-Identifier: Apache-2.0
// HostLocator: what an object of the host is called in filehandles, and the way back from there.
//
// Two ways. Where the process may open by the kernel's filehandles (open_by_handle_at(2), which takes
// CAP_DAC_READ_SEARCH, and a file system that has them), an identity is one of these: found whatever happened
// to its names. Otherwise an identity is inode number and birth time, and the way back is an index of where
// inodes were last seen, checked at each use; when it misses, the export is searched, at most every
// kSearchInterval. A file that the host moves is so found again after that time, and STALE until then.
//
// Identities are sealed with the server's key and what the export is of: one that was not given out for it is
// BADHANDLE. So nobody gets at objects outside of the export by guessing, nor with what another run, of the
// same key, gave out for a directory that is not exported any more. No identity leads to another file system
// than the export's.
// Owner: a HostStore. Under the server's lock; searching blocks.
#pragma once

#include <sys/stat.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "filer/tree/host_export.h"
#include "filer/tree/node.h"
#include "filer/tree/siphash.h"
#include "transport/runtime/fd.h"
#include "xdr/support/bytes.h"

namespace nfsrdma::filer {

// statx(2) of a descriptor; false with errno.
bool stat_of(int fd, struct statx& to);

class HostLocator {
 public:
  static constexpr std::chrono::seconds kSearchInterval{10};

  // `root`: a readable descriptor of the exported directory, where that can be had, else O_PATH. It outlives
  // this. `export_path`: where clients find it.
  HostLocator(int root, const HandleKey& key, uint32_t file_system, std::string_view export_path);

  bool by_kernel() const { return by_kernel_; }
  // STALE where it has none (its file system is another one).
  Answer<std::string> identify(int fd, const struct statx& facts) const;
  // A descriptor (O_PATH) of what the identity names, or STALE.
  Answer<Fd> open(const std::string& identity);

  // Whether open() would find it without a search.
  bool knows_way(const std::string& identity);

  // Where an inode has been seen.
  void saw(uint64_t inode, uint64_t directory, std::string_view name);
  // It has no name any more.
  void lost(uint64_t inode) { places_.erase(inode); }

  ByteVector seal(const std::string& identity) const;
  Answer<std::string> unseal(ConstBytes handle) const;  // BADHANDLE

 private:
  struct Place {
    uint64_t directory = 0;
    std::string name;
  };
  std::string identity_by_kernel(int fd) const;
  uint64_t seal_of(const std::string& identity) const;
  Fd open_by_kernel(const std::string& identity) const;
  Fd open_inode(uint64_t inode, unsigned depth);
  Fd find_inode(const std::string& identity);
  bool leads_to(const Fd& fd, const std::string& identity) const;
  void search();
  // False: there are no descriptors for all of it.
  bool search_directory(int fd, uint64_t inode, unsigned depth);
  bool in_export(const struct statx& facts) const;

  int root_;
  SipHash hash_;
  std::string export_;  // its number and a hash of where it is, which are sealed with each identity
  struct statx root_facts_ {};
  bool by_kernel_ = false;
  std::unordered_map<uint64_t, Place> places_;  // by inode; only where the kernel's handles cannot be used
  std::optional<std::chrono::steady_clock::time_point> searched_;
};

}  // namespace nfsrdma::filer
