// SPDX-License-Identifier: Apache-2.0
// A TCP proxy between an NFS client and its server that understands record marking (RFC 5531 §11).
//
// It passes on whole records, so a fault can select a single call or reply. One thread, one poll loop. The
// same loop serves the control socket, so a command has taken effect when its answer arrives.
#pragma once

#include <netinet/in.h>
#include <poll.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "faults.h"

namespace chaos {

using Clock = std::chrono::steady_clock;

class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(other.release()) {}
  Fd& operator=(Fd&& other) noexcept;
  ~Fd() { reset(); }
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  void reset();
  int release();

 private:
  int fd_ = -1;
};

// Takes bytes, returns whole records.
class RecordReader {
 public:
  void feed(const char* data, size_t size) { buffer_.append(data, size); }
  // Takes the next complete record without its marks; false when there is none yet.
  bool next(std::string& record);

 private:
  std::string buffer_;
  std::string partial_;  // fragments of an unfinished record
};

// One direction of a connection: the received bytes, and those that wait to be sent.
struct Pipe {
  RecordReader reader;
  std::string out;
  std::deque<std::pair<Clock::time_point, std::string>> delayed;
  bool finished = false;  // the source has closed
};

struct Connection {
  Fd client;
  Fd server;
  bool connecting = true;
  Pipe to_server;
  Pipe to_client;
  std::map<uint32_t, std::vector<uint32_t>> outstanding;  // XID of a call: its operations
  bool cut = false;                                       // reset both sides as soon as possible
  bool cut_after_flush = false;
};

struct Statistics {
  uint64_t connections = 0;
  uint64_t calls = 0;
  uint64_t replies = 0;
  uint64_t callbacks = 0;
  uint64_t cuts = 0;
  std::map<std::string, uint64_t> operations;
  uint64_t compounds = 0;
  uint32_t largest_read = 0;  // bytes asked for, and carried
  uint32_t largest_write = 0;
};

// The address of an IPv4 host in dotted decimal. Throws std::runtime_error.
sockaddr_in address_of(const std::string& host, uint16_t port);

class Proxy {
 public:
  // Listens on 127.0.0.1:port (0: any). Throws std::runtime_error.
  Proxy(uint16_t port, const sockaddr_in& target, const std::string& control_path, bool raw);

  uint16_t port() const { return port_; }
  void run();  // until the command `quit`

 private:
  struct Control {
    Fd fd;
    std::string in;
  };

  void listen_again();
  void loop_once();
  void accept_client();
  void read_from(Connection& connection, bool from_client);
  void relay(Connection& connection, bool from_client, std::string record);
  void append(Connection& connection, bool to_client, const std::string& record, uint32_t announce_more);
  void flush(Connection& connection, bool to_client);
  void release_delayed(Connection& connection);
  void close_finished();
  void random_cuts();
  void read_control(Control& control);
  std::string command(const std::string& line);
  std::string statistics() const;
  int timeout_ms() const;

  uint16_t port_;
  const sockaddr_in target_;
  Fd listener_;
  Fd control_listener_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::vector<std::unique_ptr<Control>> controls_;
  Faults faults_;
  Statistics statistics_;

  const bool raw_;  // passes on bytes without looking for records
  bool quit_ = false;
  bool stalled_ = false;
  Clock::time_point stalled_until_ = Clock::time_point::max();
  Clock::time_point refuse_until_ = Clock::time_point::min();
  uint32_t delay_ms_ = 0;
  uint32_t fragment_ = 0;  // 0: one fragment per record
  uint32_t cut_min_ms_ = 0;
  uint32_t cut_max_ms_ = 0;
  Clock::time_point next_cut_ = Clock::time_point::max();
};

}  // namespace chaos
