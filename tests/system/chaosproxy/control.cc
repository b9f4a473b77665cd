// SPDX-License-Identifier: Apache-2.0
// The commands of the control socket: one line in, one line out ("ok ...", "error ..."). main.cc lists them.
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <sstream>

#include "proxy.h"

namespace chaos {

void Proxy::read_control(Control& control) {
  char buffer[4096];
  const ssize_t count = read(control.fd.get(), buffer, sizeof(buffer));
  if (count < 0 && errno == EINTR) return;
  if (count <= 0) {
    control.fd.reset();
    return;
  }
  control.in.append(buffer, static_cast<size_t>(count));
  for (size_t end; (end = control.in.find('\n')) != std::string::npos; control.in.erase(0, end + 1)) {
    const std::string answer = command(control.in.substr(0, end)) + "\n";
    [[maybe_unused]] const ssize_t sent = send(control.fd.get(), answer.data(), answer.size(), MSG_NOSIGNAL);
  }
}

std::string Proxy::command(const std::string& line) {
  std::istringstream in(line);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  const auto number = [&words](size_t index) -> uint32_t {
    if (index >= words.size() || words[index].find_first_not_of("0123456789") != std::string::npos) return 0;
    return static_cast<uint32_t>(std::stoul(words[index].substr(0, 9)));
  };
  const auto after_ms = [](uint32_t ms) { return Clock::now() + std::chrono::milliseconds(ms); };
  const std::string verb = words.empty() ? "" : words[0];
  if (verb == "on") {
    const std::string wrong = faults_.add_rule({words.begin() + 1, words.end()});
    return wrong.empty() ? "ok" : "error " + wrong;
  }
  if (verb == "cut") {
    for (const auto& c : connections_) c->cut = true;
    return "ok " + std::to_string(connections_.size());
  }
  if (verb == "cut-every") {
    cut_min_ms_ = number(1);
    cut_max_ms_ = std::max(number(2), cut_min_ms_);
    if (words.size() > 3) faults_.seed(number(3));
    next_cut_ = cut_max_ms_ == 0 ? Clock::time_point::max() : after_ms(cut_min_ms_);
    return "ok";
  }
  if (verb == "stall") {
    stalled_ = true;
    stalled_until_ = words.size() > 1 ? after_ms(number(1)) : Clock::time_point::max();
    return "ok";
  }
  if (verb == "unstall") {
    stalled_ = false;
    return "ok";
  }
  if (verb == "refuse") {
    listener_.reset();
    refuse_until_ = words.size() > 1 ? after_ms(number(1)) : Clock::time_point::max();
    for (const auto& c : connections_) c->cut = true;
    return "ok";
  }
  if (verb == "accept") {
    refuse_until_ = Clock::now();
    return "ok";
  }
  if (verb == "delay") {
    delay_ms_ = number(1);
    return "ok";
  }
  if (verb == "fragment") {
    fragment_ = number(1);
    return "ok";
  }
  if (verb == "seed") {
    faults_.seed(number(1));
    return "ok";
  }
  if (verb == "reset") {
    faults_.clear();
    stalled_ = false;
    delay_ms_ = fragment_ = 0;
    next_cut_ = Clock::time_point::max();
    if (!listener_) refuse_until_ = Clock::now();
    return "ok";
  }
  if (verb == "stats") return "ok " + statistics();
  if (verb == "zero") {
    statistics_ = {};
    return "ok";
  }
  if (verb == "quit") {
    quit_ = true;
    return "ok";
  }
  return "error no command " + verb;
}

std::string Proxy::statistics() const {
  std::ostringstream out;
  out << "{\"connections\": " << statistics_.connections << ", \"open\": " << connections_.size()
      << ", \"calls\": " << statistics_.calls << ", \"compounds\": " << statistics_.compounds
      << ", \"replies\": " << statistics_.replies << ", \"callbacks\": " << statistics_.callbacks
      << ", \"cuts\": " << statistics_.cuts << ", \"triggered\": " << faults_.triggered()
      << ", \"largest_read\": " << statistics_.largest_read
      << ", \"largest_write\": " << statistics_.largest_write << ", \"operations\": {";
  const char* separator = "";
  for (const auto& [name, count] : statistics_.operations) {
    out << separator << "\"" << name << "\": " << count;
    separator = ", ";
  }
  out << "}}";
  return out.str();
}

}  // namespace chaos
