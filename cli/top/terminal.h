// SPDX-License-Identifier: Apache-2.0
// Terminal: the whole screen, by ncurses, which sends only what has changed. One at a time; one thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "cli/outcome.h"
#include "cli/top/top_view.h"

namespace nfsrdma::cli::top {

enum class Key : uint8_t { kNone, kUp, kDown, kProcesses, kHelp, kQuit, kResized };

class Terminal {
 public:
  // Standard input and output. Fails where they are no terminal, or one that ncurses does not know.
  static Outcome<std::unique_ptr<Terminal>> open();
  ~Terminal();  // leaves the terminal as it was
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  size_t width() const;
  size_t height() const;
  void draw(const std::vector<Line>& lines);
  // kNone when the time is over, or the key means nothing; kQuit also when the terminal is gone.
  Key wait_for_key(std::chrono::milliseconds time);

 private:
  struct Screen;
  explicit Terminal(std::unique_ptr<Screen> screen);
  std::unique_ptr<Screen> screen_;
};

}  // namespace nfsrdma::cli::top
