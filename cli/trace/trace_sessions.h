// SPDX-License-Identifier: Apache-2.0
// TraceSessions: the daemon's end of `trace` (trace_record.h). It holds the traces that run, and what each
// tool has not fetched yet.
//
// Owner: MountDaemon, on the control thread. A tool that ends sends a request with "end". The session of a
// killed tool ends when no request has come for kPatience.
#pragma once

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "cli/control/control_protocol.h"
#include "cli/support/outcome.h"
#include "cli/trace/message_capture.h"
#include "fuse/operation_tracer.h"

namespace nfsrdma::cli {

class TraceSessions {
 public:
  static constexpr size_t kMost = 8;
  static constexpr std::chrono::seconds kPatience{5};

  using PathOf = std::function<std::string(client::NodeRef, std::string)>;
  struct Sources {
    fuse::OperationTracer* tracer = nullptr;
    PathOf path_of;
    std::shared_ptr<MessageCapture> capture;  // null: the messages of this mount cannot be captured (NFSv3)
  };
  TraceSessions(asio::io_context& context, Sources sources);
  ~TraceSessions();

  // Fails with ToolExit::kFailed if the request asks for something that does not exist.
  Outcome<Json> answer(const Json& request);
  size_t size() const { return sessions_.size(); }

 private:
  struct Session {
    std::shared_ptr<fuse::OperationTracer::Watch> watch;  // null: this session traces messages
    std::chrono::steady_clock::time_point asked;
  };
  Outcome<Json> begin(const Json& request);
  Outcome<Json> continue_with(uint64_t id);
  Json end(uint64_t id);
  Json operations(Session& session) const;
  Json messages();
  void drop_silent();
  void look_again();
  bool captures() const;

  asio::steady_timer timer_;
  const Sources sources_;
  std::map<uint64_t, Session> sessions_;
  uint64_t last_id_ = 0;
};

}  // namespace nfsrdma::cli
