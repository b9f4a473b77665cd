// SPDX-License-Identifier: Apache-2.0
// ControlServer: answers the tools on a mount's control socket.
//
// Owner: the daemon's main; it lives on one loop and everything here runs on that loop's thread. It must
// never harm the mount: at most kMaxConnections at a time, requests of at most 4 KiB that must arrive within
// kIoTime, answers that must be taken within kIoTime, and only root and the daemon's own user are heard
// (SO_PEERCRED; the socket's mode is 0600 as well). A handler answers through its Reply, at once or later on
// the same loop; when it is later, the tool is told that it was heard, and the connection waits without a
// limit. After close() replies are dropped.
#pragma once

#include <asio/io_context.hpp>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cli/control_protocol.h"
#include "cli/outcome.h"

namespace nfsrdma::cli {

class ControlServer {
 public:
  static constexpr size_t kMaxConnections = 32;
  static constexpr std::chrono::seconds kIoTime{10};

  // Takes the result, or the text of an error. Call it once; copies are the same reply.
  class Reply {
   public:
    Reply(std::function<void(Outcome<Json>)> answer, std::function<bool()> over)
        : answer_(std::move(answer)), over_(std::move(over)) {}
    void operator()(Outcome<Json> result) const { answer_(std::move(result)); }
    // Answered, or nobody waits for it any more.
    bool over() const { return over_(); }

   private:
    std::function<void(Outcome<Json>)> answer_;
    std::function<bool()> over_;
  };
  using Handler = std::function<void(const Json& request, Reply reply)>;
  using Handlers = std::map<std::string, Handler, std::less<>>;

  // Those that wait for one event. It may be long in coming, and tools come and go meanwhile.
  class LateReplies {
   public:
    void add(Reply reply);
    void answer(const Json& result);  // all of them; none is left
    size_t size() const { return replies_.size(); }

   private:
    std::vector<Reply> replies_;
  };

  // Binds and listens. A socket file that is there is replaced: the path has the mount's device number, which
  // the kernel gives to one mount at a time, so its mount is gone, though its daemon may still be ending.
  static Outcome<std::unique_ptr<ControlServer>> create(asio::io_context& context, std::string path,
                                                        Handlers handlers,
                                                        std::chrono::milliseconds io_time = kIoTime);
  ~ControlServer();  // close()

  const std::string& path() const;
  size_t connections() const;

  // Stops listening, removes the socket file, ends idle connections. Replies already being written are
  // finished by the loop as long as it runs.
  void close();

 private:
  class Impl;
  explicit ControlServer(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

}  // namespace nfsrdma::cli
