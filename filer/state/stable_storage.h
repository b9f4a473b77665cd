// SPDX-License-Identifier: Apache-2.0
// StableStorage: what a server remembers from one run to the next, in a directory of its own.
//
//     lock     held (flock(2)) while a server uses the directory: two must not
//     key      16 random bytes: filehandles of host directories are sealed with it
//     clients  who may reclaim after a restart, by co_ownerid: one line of hexadecimal digits each
//     creates  the latest exclusive creates: verifier and filehandle, one line each. It outlives the server;
//              whether it outlives the machine is the file system's to say
//
// "The server must record in stable storage" who held state (RFC 8881 section 8.4.2.1): which clients, not
// which locks, as the RFC allows; a client is recorded when it has sent RECLAIM_COMPLETE and until it is gone
// or has lost its state. The file is replaced as a whole and is on the disk when save() returns. Owner: Core.
// Under the server's lock; blocks.
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

namespace nfsrdma::filer {

class StableStorage {
 public:
  // Makes the directory and what is missing in it. Errors: what the system says; EBUSY when another server
  // uses it.
  static Result<std::unique_ptr<StableStorage>> open(const std::string& directory);

  const HandleKey& key() const { return key_; }
  const std::set<std::string>& clients() const { return clients_; }
  // Logs what goes wrong: a server without stable storage goes on. False: to be tried again.
  bool save(std::set<std::string> clients);

  // The verifier of an exclusive create is for stable storage (RFC 8881 section 18.16.3): a create that is
  // sent again behind a restart is known by it.
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
  // The content of a file; nothing when there is none.
  Result<std::string> read(const char* name) const;
  Result<> replace(const char* name, const std::string& content) const;

  Fd directory_;
  Fd lock_;
  HandleKey key_{};
  std::set<std::string> clients_;
  std::unordered_map<std::string, std::string> verifiers_;  // by filehandle
  std::deque<std::string> created_;                         // filehandles, the oldest first
  Fd creates_;                                              // to append to
  size_t appended_ = 0;                                     // lines, since it was written as a whole
};

}  // namespace nfsrdma::filer
