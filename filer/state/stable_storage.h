// SPDX-License-Identifier: Apache-2.0
// StableStorage: what a server keeps for its next run, in a directory of its own.
//
//     lock     locked by flock(2) while a server uses the directory; a second server must not use it
//     key      16 random bytes that seal the filehandles of host directories
//     clients  co_ownerids of the clients that may reclaim after a restart, one hexadecimal line each
//     creates  the latest exclusive creates, verifier and filehandle, one line each. It survives the
//              server; whether it survives a crash of the machine depends on the file system
//
// "The server must record in stable storage" which clients held state (RFC 8881 section 8.4.2.1). It records
// clients and not their locks, as the RFC allows. A client is recorded from its RECLAIM_COMPLETE until it is
// removed or has lost state. save() replaces the file and returns when it is on disk. Core owns the object.
// Under the server's lock; calls block.
#pragma once

#include <deque>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>

#include "filer/tree/host_export.h"
#include "transport/runtime/fd.h"
#include "xdr/support/result.h"

namespace nfsrdma::filer::state {

class StableStorage {
 public:
  // Creates the directory and missing files. Errors: the system's error; EBUSY if another server uses it.
  static Result<std::unique_ptr<StableStorage>> open(const std::string& directory);

  const tree::HandleKey& key() const { return key_; }
  const std::set<std::string>& clients() const { return clients_; }
  // Errors are logged and the server continues. Returns false if the caller should try again.
  bool save(std::set<std::string> clients);

  // RFC 8881 section 18.16.3 wants the verifier of an exclusive create in stable storage. It identifies a
  // create that is sent again after a restart.
  static constexpr size_t kCreates = 4096;
  void note_create(std::string_view handle, std::string_view verifier);
  bool was_created_by(std::string_view handle, std::string_view verifier) const;

 private:
  explicit StableStorage(Fd directory) : directory_(std::move(directory)) {}
  Result<> lock();
  Result<> load_key();
  Result<> load_clients();
  Result<> load_creates();
  void remember_create(std::string handle, std::string verifier);
  Result<> write_creates();
  // The content of a file; empty if it does not exist.
  Result<std::string> read(const char* name) const;
  Result<> replace(const char* name, const std::string& content) const;

  Fd directory_;
  Fd lock_;
  tree::HandleKey key_{};
  std::set<std::string> clients_;
  std::unordered_map<std::string, std::string> verifiers_;  // by filehandle
  std::deque<std::string> created_;                         // filehandles in `verifiers_`, the oldest first
  Fd creates_;                                              // open for appending
  size_t appended_ = 0;                                     // lines appended since the file was rewritten
};

}  // namespace nfsrdma::filer::state
