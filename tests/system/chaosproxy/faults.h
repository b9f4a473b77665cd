// SPDX-License-Identifier: Apache-2.0
// The proxy's faults, as configured over its control socket.
//
// A rule selects records of one direction that contain an operation (a reply belongs to its call): the n-th
// one, or each with probability 1/k. It applies one action to the selected record. Faults own no sockets: the
// proxy calls `judge` for every whole record and carries out the verdict. Single thread.
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
  Cut,        // drops the record and resets the connection; for a reply, the server has executed the call
  CutMiddle,  // passes on a part of the record, then resets the connection
  Drop,       // drops the record; the connection stays
  Delay,      // passes it on `parameter` milliseconds later
  Flip,       // changes one random byte behind the XID
  Truncate,   // removes `parameter` bytes at the end; the record mark fits
  Oversize,   // the record mark announces `parameter` bytes more than follow
  Duplicate,  // passes it on twice
  Garbage,    // replaces it by random bytes of the same length
  Xid,        // changes the XID
  Stall,      // from this record on passes nothing on (see the command `stall`)
};

struct Verdict {
  Action action = Action::Pass;
  uint32_t parameter = 0;
};

class Faults {
 public:
  // on call|reply OPERATION N|1/K ACTION [PARAMETER]; returns an error message, empty on success.
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
    uint32_t nth;     // 0: use one_in
    uint32_t one_in;  // used if nth is 0
    Action action;
    uint32_t parameter;
  };
  std::vector<Rule> rules_;
  std::mt19937_64 generator_{1};
  uint64_t triggered_ = 0;
};

}  // namespace chaos
