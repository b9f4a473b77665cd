// SPDX-License-Identifier: Apache-2.0
#include "cli/top/terminal.h"

#define NCURSES_NOMACROS 1
#include <curses.h>
#include <fmt/core.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <clocale>
#include <cstdio>
#include <cstdlib>

namespace nfsrdma::cli::top {
namespace {

attr_t attributes_of(Style style) {
  switch (style) {
    case Style::kTitle: return A_BOLD;
    case Style::kHead: return A_REVERSE;
    case Style::kSelected: return A_BOLD;
    case Style::kAlarm: return A_BOLD | A_STANDOUT;
    case Style::kPlain: break;
  }
  return A_NORMAL;
}

Key meaning_of(int key) {
  switch (key) {
    case KEY_UP:
    case 'k': return Key::kUp;
    case KEY_DOWN:
    case 'j': return Key::kDown;
    case 'p': return Key::kProcesses;
    case 'h':
    case '?': return Key::kHelp;
    case 'q': return Key::kQuit;
    case KEY_RESIZE: return Key::kResized;
    default: return Key::kNone;
  }
}

}  // namespace

struct Terminal::Screen {
  SCREEN* screen = nullptr;
  bool utf8 = false;
};

Terminal::Terminal(std::unique_ptr<Screen> screen) : screen_(std::move(screen)) {}

Outcome<std::unique_ptr<Terminal>> Terminal::open() {
  if (isatty(STDIN_FILENO) == 0 || isatty(STDOUT_FILENO) == 0)
    return refuse(ToolExit::kUsage, "top: this is no terminal; 'nfsrdma-fuse top --batch' needs none");
  setlocale(LC_ALL, "");
  const char* const name = std::getenv("TERM");
  SCREEN* const opened = newterm(nullptr, stdout, stdin);
  if (opened == nullptr) {
    return refuse(
        ToolExit::kUsage,
        fmt::format("top: the terminal \"{}\" is unknown; set TERM, or use --batch, which needs none",
                    name == nullptr ? "" : name));
  }
  auto screen = std::make_unique<Screen>();
  screen->screen = opened;
  screen->utf8 = MB_CUR_MAX > 1;
  set_term(opened);
  cbreak();
  noecho();
  keypad(stdscr, TRUE);
  nodelay(stdscr, TRUE);
  curs_set(0);
  return std::unique_ptr<Terminal>(new Terminal(std::move(screen)));
}

Terminal::~Terminal() {
  endwin();
  delscreen(screen_->screen);
}

size_t Terminal::width() const {
  return static_cast<size_t>(std::max(1, getmaxx(stdscr)));
}
size_t Terminal::height() const {
  return static_cast<size_t>(std::max(1, getmaxy(stdscr)));
}

void Terminal::draw(const std::vector<Line>& lines) {
  werase(stdscr);
  for (size_t y = 0; y < lines.size() && y < height(); ++y) {
    const std::string text = screen_->utf8 ? lines[y].text : to_ascii(lines[y].text);
    wattrset(stdscr, static_cast<int>(attributes_of(lines[y].style)));
    mvwaddnstr(stdscr, static_cast<int>(y), 0, text.data(), static_cast<int>(text.size()));
  }
  wattrset(stdscr, A_NORMAL);
  wrefresh(stdscr);
}

Key Terminal::wait_for_key(std::chrono::milliseconds time) {
  int key = wgetch(stdscr);
  if (key == ERR) {
    pollfd input{STDIN_FILENO, POLLIN, 0};
    const int n = poll(&input, 1, static_cast<int>(std::clamp<int64_t>(time.count(), 0, 60'000)));
    if (n > 0 && (input.revents & POLLIN) == 0) return Key::kQuit;
    // Read a key also if a signal ended the wait: the terminal may have a new size.
    key = wgetch(stdscr);
    if (n > 0 && key == ERR && (input.revents & POLLHUP) != 0) return Key::kQuit;
  }
  return meaning_of(key);
}

}  // namespace nfsrdma::cli::top
