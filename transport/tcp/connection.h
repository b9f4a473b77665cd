// SPDX-License-Identifier: Apache-2.0
// TcpConnection: one connected socket with its send queue and its record reader, and perhaps TLS between them
// and the socket. TLS encrypts from one piece of memory and decrypts into ours, so there is no pipe, and one
// more copy in each direction.
//
// It first tries ::recvmsg or ::sendmsg directly, and waits by Asio only on EAGAIN. Messages that are queued
// in one turn of the loop, or while the replies of one receive are delivered, leave in one sendmsg. This
// class knows bytes and messages; its owner interprets them (transport/rpc/connection.h). Loop thread only.
#pragma once

#include <asio/posix/stream_descriptor.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "transport/net/connector.h"
#include "transport/net/socket_io.h"
#include "transport/rpc/connection.h"
#include "transport/tcp/due_replies.h"
#include "transport/tcp/record_reader.h"
#include "transport/tcp/send_queue.h"
#include "transport/tls/stream.h"

namespace nfsrdma::tcp {

class TcpConnection final : public rpc::Connection, private SendQueue::Observer {
 public:
  struct Limits {
    RecordReader::Limits reader;
    size_t send_fragment_bytes = 0;
  };

  // `tls`: a session over connected.socket, after its handshake; null: none.
  TcpConnection(Loop& loop, net::Connected connected, std::unique_ptr<tls::Stream> tls,
                rpc::ConnectionUse use, Limits limits);

  void begin() override;
  void send(PendingCall& call) override;
  void send(ByteVector reply) override;
  size_t replies_queued() const override { return queue_.replies(); }
  bool has_moved(const PendingCall& oldest) override;
  void forget(PendingCall& call) override;
  // Closes the socket and tells the owner at once.
  void drop(Error why) override;
  bool open() const override { return open_; }
  const std::string& peer() const override { return peer_; }
  const std::string& local() const override { return local_; }
  std::string protocol() const override { return "tcp"; }
  std::string tls() const override;

 private:
  std::shared_ptr<TcpConnection> self() {
    return std::static_pointer_cast<TcpConnection>(shared_from_this());
  }
  void wait_readable();
  void set_low_water();
  void on_readable();
  // The result of one attempt to receive.
  enum class Received : uint8_t { kMore, kDrained, kNothing, kClosed };
  Received receive();
  Received receive_into_memory(const RecordReader::Window& window);
  // nullopt: receive into memory instead.
  std::optional<Received> receive_into_pipe(const RecordReader::Window& window);
  void received(size_t bytes);
  void hand_out();

  ssize_t send_some();
  void queue_flush();
  void flush_queued();
  void flush();
  void wait_writable();
  void first_byte_sent(PendingCall& call) override;
  void last_byte_sent(PendingCall& call) override;

  Loop& loop_;
  rpc::ConnectionOwner& owner_;
  PendingCalls& calls_;
  rpc::Counters& counters_;
  const Gate::Pass pass_;  // before descriptor_: released after it is closed
  const std::string peer_;
  const std::string local_;
  asio::posix::stream_descriptor descriptor_;
  const std::unique_ptr<tls::Stream> tls_;
  bool open_ = true;
  DueReplies due_;
  RecordReader reader_;
  SendQueue queue_;
  size_t last_received_ = 0;
  net::LowWater low_water_;
  net::PipeFiller filler_;
  uint64_t sent_ = 0;   // bytes given to the kernel
  uint64_t taken_ = 0;  // of these, bytes that the peer had acknowledged at the last has_moved()
  int unread_ = 0;      // bytes that were unread in the socket at that time
  bool flush_queued_ = false;
  bool waits_writable_ = false;
};

}  // namespace nfsrdma::tcp
