// SPDX-License-Identifier: Apache-2.0
// What the proxy does wrong on purpose, as told over its control socket.
//
// A rule waits for the n-th record of one direction that holds an operation (a reply: answers a call that
// does), or strikes each such record with probability 1/k, and then does one thing to it. Faults own no
// sockets: the proxy asks `judge` for every whole record and carries out the verdict. Single thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "compound.h"

namespace chaos {

enum class Direction { Call, Reply };

enum class Action {
  Pass,
  Cut,        // the record is dropped and the connection reset; of a reply: the server has executed the call
  CutMiddle,  // a part of the record is passed on, then the connection is reset
  Drop,       // the record is dropped, the connection stays
  Delay,      // passed on `parameter` milliseconds later
  Flip,       // one random byte behind the XID is changed
  Truncate,   // `parameter` bytes are missing at the end, with a record mark that fits
  Oversize,   // the record mark announces `parameter` bytes more than follow
  Duplicate,  // passed on twice
  Garbage,    // random bytes of the same length instead
  Xid,        // another XID
  Stall,      // from this record on, nothing is passed on (see the command `stall`)
};

struct Verdict {
  Action action = Action::Pass;
  uint32_t parameter = 0;
};

class Faults {
 public:
  // on call|reply OPERATION N|1/K ACTION [PARAMETER]; returns what is wrong with it, empty when nothing is.
  std::string add_rule(const std::vector<std::string>& words);
  void clear() { rules_.clear(); }
  void seed(uint64_t value) { generator_.seed(value); }

  Verdict judge(Direction direction, const std::vector<uint32_t>& operations);
  // Applies Flip, Truncate, Garbage and Xid to a record.
  void spoil(std::string& record, const Verdict& verdict);

  uint64_t triggered() const { return triggered_; }
  uint32_t random(uint32_t below) {
    return std::uniform_int_distribution<uint32_t>(0, below - 1)(generator_);
  }

 private:
  struct Rule {
    Direction direction;
    uint32_t operation;
    uint32_t nth;     // 0: by chance
    uint32_t one_in;  // with nth 0
    Action action;
    uint32_t parameter;
  };
  std::vector<Rule> rules_;
  std::mt19937_64 generator_{1};
  uint64_t triggered_ = 0;
};

}  // namespace chaos
