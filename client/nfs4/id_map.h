// SPDX-License-Identifier: Apache-2.0
// IdMap: maps NFSv4 owner strings to user and group IDs, and back (RFC 8881 section 5.9).
//
// In every mode, "1000" is a number (servers send numbers to AUTH_SYS clients that use numbers). With
// `idmap=nfsidmap`, "user@domain" is mapped by libnfsidmap, which is loaded only then. Otherwise, and for
// unknown names, the result is the anonymous ID 65534. libnfsidmap may block on a directory service. So it
// runs on its own thread, the IDs of names are cached for ten minutes, and a waiting request does not block
// its loop.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>

#include "client/api/options.h"
#include "client/nfs4/protocol_types.h"
#include "transport/runtime/mutex.h"
#include "transport/runtime/sync.h"

namespace nfsrdma::client::nfs4 {

class IdMap {
 public:
  enum class Kind : uint8_t { kUser, kGroup };

  explicit IdMap(IdMapping mode);
  ~IdMap();

  // The ID, if it is known without calling the library.
  std::optional<uint32_t> known(Kind kind, const std::string& name);
  // Asks the library; any loop.
  Task<uint32_t> resolve(Kind kind, std::string name);
  // The owner string to send for an ID.
  Task<std::string> name_of(Kind kind, uint32_t id);

 private:
  struct Library;
  struct Answer {
    uint32_t id = kNobody;
    TimePoint expires{};
  };
  struct Question {
    Kind kind;
    std::string name;  // with `number`: map this name to an ID
    uint32_t id = 0;
    Completion<std::string>* text = nullptr;
    Completion<uint32_t>* number = nullptr;
  };
  void serve();
  void ask(Question question);

  const IdMapping mode_;
  std::unique_ptr<Library> library_;
  Mutex mutex_;
  ConditionVariable asked_;
  // Key: 'u' or 'g', then the name.
  std::unordered_map<std::string, Answer> answers_ NFSRDMA_GUARDED_BY(mutex_);
  std::deque<Question> questions_ NFSRDMA_GUARDED_BY(mutex_);
  bool stop_ NFSRDMA_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace nfsrdma::client::nfs4
