// SPDX-License-Identifier: Apache-2.0
// ControlServer: answers the tools on a mount's control socket.
//
// Owner: MountDaemon. All code runs on the thread of the io_context given to create(), the control thread.
// Clients must not be able to harm the mount. Therefore:
// - at most kMaxConnections connections exist at a time;
// - a request has at most 4 KiB and must arrive within kIoTime; an answer must be read within kIoTime;
// - only root and the daemon's own user may connect (SO_PEERCRED; the socket also has mode 0600).
//
// A handler answers through its Reply, at once or later on the same thread. If it answers later, the tool
// first gets the "later" notice, and the connection waits without a time limit. close() clears the handlers;
// requests that a handler has taken can still be answered.
#pragma once

#include <asio/io_context.hpp>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cli/control/control_protocol.h"
#include "cli/support/outcome.h"

namespace nfsrdma::cli {

class ControlServer {
 public:
  static constexpr size_t kMaxConnections = 32;
  static constexpr std::chrono::seconds kIoTime{10};

  // Takes the result or the error text. Call it once; copies refer to the same reply.
  class Reply {
   public:
    Reply(std::function<void(Outcome<Json>)> answer, std::function<bool()> over)
        : answer_(std::move(answer)), over_(std::move(over)) {}
    void operator()(Outcome<Json> result) const { answer_(std::move(result)); }
    // True if the reply was sent or the tool has disconnected.
    bool over() const { return over_(); }

   private:
    std::function<void(Outcome<Json>)> answer_;
    std::function<bool()> over_;
  };
  using Handler = std::function<void(const Json& request, Reply reply)>;
  using Handlers = std::map<std::string, Handler, std::less<>>;

  // Replies that wait for the same event, which may come late. Tools may connect and disconnect meanwhile.
  class LateReplies {
   public:
    void add(Reply reply);
    void answer(const Json& result);  // answers all of them and removes them
    size_t size() const { return replies_.size(); }

   private:
    std::vector<Reply> replies_;
  };

  // Binds and listens. An existing socket file is replaced. Its name is the mount's device number, which the
  // kernel gives to one mount at a time. So the mount of the old file has ended, even if its daemon is still
  // ending.
  static Outcome<std::unique_ptr<ControlServer>> create(asio::io_context& context, std::string path,
                                                        Handlers handlers,
                                                        std::chrono::milliseconds io_time = kIoTime);
  ~ControlServer();  // close()

  const std::string& path() const;
  size_t connections() const;

  // Stops listening, removes the socket file and closes idle connections. The io_context finishes replies
  // that are being written, as long as it runs.
  void close();

 private:
  class Impl;
  explicit ControlServer(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

}  // namespace nfsrdma::cli
