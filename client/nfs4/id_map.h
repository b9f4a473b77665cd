// SPDX-License-Identifier: Apache-2.0
// IdMap: owner strings of NFSv4 to user and group IDs and back (RFC 8881 section 5.9).
//
// "1000" is a number whatever the mode (what servers send to AUTH_SYS clients that ask in numbers).
// "user@domain" is mapped through libnfsidmap when `idmap=nfsidmap`, which is loaded only then; otherwise,
// and for names nobody knows, it is the anonymous ID 65534. The library may block on a directory service: it
// runs on a thread of its own, its answers are kept for ten minutes, and requests wait for them without
// holding up their loop.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>

#include "client/options.h"
#include "transport/runtime/sync.h"

namespace nfsrdma::client {

class IdMap {
 public:
  static constexpr uint32_t kNobody = 65534;
  enum class Kind : uint8_t { kUser, kGroup };

  explicit IdMap(IdMapping mode);
  ~IdMap();

  // The ID when it is known without asking anybody.
  std::optional<uint32_t> known(Kind kind, const std::string& name);
  // Asks; any loop.
  Task<uint32_t> resolve(Kind kind, std::string name);
  // What to send for an ID.
  Task<std::string> name_of(Kind kind, uint32_t id);

 private:
  struct Library;
  struct Answer {
    uint32_t id = kNobody;
    TimePoint expires{};
  };
  struct Question {
    Kind kind;
    std::string name;  // name to ID when not empty
    uint32_t id = 0;
    Completion<std::string>* text = nullptr;
    Completion<uint32_t>* number = nullptr;
  };
  void serve();
  void ask(Question question);

  const IdMapping mode_;
  std::unique_ptr<Library> library_;
  std::mutex mutex_;
  std::condition_variable asked_;
  std::unordered_map<std::string, Answer> answers_;  // key: 'u' or 'g', then the name
  std::deque<Question> questions_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace nfsrdma::client
