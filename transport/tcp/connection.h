// Connection: one connected socket with its send queue and its record reader.
//
// Tries first and waits only on EAGAIN: ::recvmsg and ::sendmsg directly, Asio for readiness. What is queued
// in one turn of the loop, or while the replies of one receive are handed out, leaves in one sendmsg.
//
// Knows bytes and messages; what they mean is its owner's. Handing out a message may resume any coroutine,
// which may call anything here, also drop(); the connection stays alive (handlers share it) and does nothing
// more once dropped. The owner outlives it: the Pass keeps the owner's gate until the last handler is gone.
// Loop thread only.
#pragma once

#include <asio/posix/stream_descriptor.hpp>
#include <memory>
#include <optional>
#include <string>

#include "transport/runtime/gate.h"
#include "transport/tcp/connector.h"
#include "transport/tcp/counters.h"
#include "transport/tcp/pending_calls.h"
#include "transport/tcp/record_reader.h"
#include "transport/tcp/send_queue.h"

namespace nfsrdma::tcp {

class Connection;

class ConnectionOwner {
 public:
  virtual void on_reply(Connection& connection, RecordReader::Message message) = 0;
  virtual void on_call(Connection& connection, RecordReader::Message message) = 0;
  // A reply nobody waits for, or (violation set) a stream that cannot be read on; drop() follows then.
  virtual void on_bad_message(Connection& connection, const char* violation) = 0;
  virtual void on_bytes_received() = 0;
  // Once, as drop()'s last action.
  virtual void on_dropped(Connection& connection, Error why) = 0;

 protected:
  ~ConnectionOwner() = default;
};

class Connection final : public std::enable_shared_from_this<Connection>, private SendQueue::Observer {
 public:
  struct Limits {
    RecordReader::Limits reader;
    size_t send_fragment_bytes = 0;
  };

  Connection(Loop& loop, Connected connected, ConnectionOwner& owner, PendingCalls& calls, Counters& counters,
             Limits limits, Gate::Pass pass);

  // Begins to receive.
  void begin();

  void send(PendingCall& call);
  void send(ByteVector message);
  size_t replies_queued() const { return queue_.replies(); }
  // `call` is about to end without a reply.
  void forget(PendingCall& call);

  // Closes the socket and tells the owner. Does nothing when done before.
  void drop(Error why);
  bool open() const { return open_; }

  const std::string& peer() const { return peer_; }
  const std::string& local() const { return local_; }
  RecordReader& reader() { return reader_; }

  size_t callbacks_in_progress = 0;  // the owner's count of back channel calls it is answering

 private:
  void wait_readable();
  void set_low_water();
  void on_readable();
  // What came of one attempt to receive.
  enum class Received : uint8_t { kMore, kDrained, kNothing, kClosed };
  Received receive();
  Received receive_into_memory(const RecordReader::Window& window);
  // nullopt: to be tried with memory.
  std::optional<Received> receive_into_pipe(const RecordReader::Window& window);
  void received(size_t bytes);
  void hand_out();

  void queue_flush();
  void flush();
  void wait_writable();
  void first_byte_sent(PendingCall& call) override;
  void last_byte_sent(PendingCall& call) override;

  Loop& loop_;
  ConnectionOwner& owner_;
  PendingCalls& calls_;
  Counters& counters_;
  const Gate::Pass pass_;  // before the descriptor: released after it is closed
  const std::string peer_;
  const std::string local_;
  asio::posix::stream_descriptor descriptor_;
  bool open_ = true;
  RecordReader reader_;
  SendQueue queue_;
  size_t last_received_ = 0;
  bool stuck_ = false;  // splice had nothing when the socket was last said to be readable
  int low_water_ = 1;   // SO_RCVLOWAT
  bool flush_queued_ = false;
  bool waits_writable_ = false;
};

}  // namespace nfsrdma::tcp
