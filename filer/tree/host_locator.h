// SPDX-License-Identifier: Apache-2.0
// HostLocator: maps a host's object to the identity in its filehandle, and back.
//
// There are two kinds of identities. If the process may use the kernel's filehandles, the identity is one of
// these, and the object is found whatever happened to its names. That needs open_by_handle_at(2), so
// CAP_DAC_READ_SEARCH, and a file system that supports it. Otherwise the identity is the inode number and
// birth time. An index then stores where each inode was last seen, and is verified at each use. If the inode
// is not there, the export is searched, at most every kSearchInterval; until then a file that was moved on
// the host is STALE.
//
// Identities are sealed with the server's key together with the export's place and directory. A handle with
// another seal is BADHANDLE. So nobody reaches objects outside of the export by guessing, nor with a handle
// from an earlier run for a directory that is not exported any more. An identity never leads to another file
// system than the export's.
//
// A HostStore owns the object. Under the server's lock; a search blocks.
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

namespace nfsrdma::filer::tree {

// statx(2) of a descriptor. Returns false and sets errno on error.
bool stat_of(int fd, struct statx& to);

class HostLocator {
 public:
  static constexpr std::chrono::seconds kSearchInterval{10};

  // `root`: a descriptor of the exported directory, readable if possible, else O_PATH; it must outlive this
  // object. `export_path`: the export's path for clients.
  HostLocator(int root, const HandleKey& key, uint32_t file_system, std::string_view export_path);

  bool by_kernel() const { return by_kernel_; }
  // The object's identity. ACCESS if the object is on another file system; STALE if the kernel gives no
  // handle.
  Answer<std::string> identify(int fd, const struct statx& facts) const;
  // Opens the object with O_PATH. STALE if it is not found.
  Answer<Fd> open(const std::string& identity);

  // Whether open() would find the object without a search.
  bool knows_way(const std::string& identity);

  // Records where an inode was seen.
  void saw(uint64_t inode, uint64_t directory, std::string_view name);
  // Forgets an inode that has no name any more.
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
  // Returns false if there were too few file descriptors to search everything.
  bool search_directory(int fd, uint64_t inode, unsigned depth);
  bool in_export(const struct statx& facts) const;

  int root_;
  SipHash hash_;
  std::string export_;  // the export's number and a hash of its place; part of each seal
  struct statx root_facts_ {};
  bool by_kernel_ = false;
  std::unordered_map<uint64_t, Place> places_;  // by inode; unused with the kernel's handles
  std::optional<std::chrono::steady_clock::time_point> searched_;
};

}  // namespace nfsrdma::filer::tree
