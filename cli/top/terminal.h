// SPDX-License-Identifier: Apache-2.0
// Terminal: the whole screen, through ncurses, which sends only changes. One instance at a time; one thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "cli/support/outcome.h"
#include "cli/top/top_view.h"

namespace nfsrdma::cli::top {

enum class Key : uint8_t { kNone, kUp, kDown, kProcesses, kHelp, kQuit, kResized };

class Terminal {
 public:
  // Uses standard input and output. Fails if they are not a terminal, or ncurses does not know its type.
  static Outcome<std::unique_ptr<Terminal>> open();
  ~Terminal();  // restores the terminal
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  size_t width() const;
  size_t height() const;
  void draw(const std::vector<Line>& lines);
  // kNone: the time is over, or the key has no meaning. kQuit: also if the terminal is gone.
  Key wait_for_key(std::chrono::milliseconds time);

 private:
  struct Screen;
  explicit Terminal(std::unique_ptr<Screen> screen);
  std::unique_ptr<Screen> screen_;
};

}  // namespace nfsrdma::cli::top
