// SPDX-License-Identifier: Apache-2.0
// Notices on the user's desktop: org.freedesktop.Notifications on the session bus, by libsystemd's sd-bus.
//
// A notice is shown or it is not; nobody waits for it. Each has a connection of its own, driven by the
// control thread's io_context, and is given up after kPatience, so that a bus or a desktop that hangs costs
// nothing. Control thread only.
#pragma once

#include <asio/io_context.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "cli/notices/notice_watch.h"

namespace nfsrdma::cli {

// $DBUS_SESSION_BUS_ADDRESS, or a socket where the user's bus is otherwise ($XDG_RUNTIME_DIR/bus).
bool has_session_bus();

class DesktopNotices {
 public:
  static constexpr std::chrono::seconds kPatience{5};

  explicit DesktopNotices(asio::io_context& context);
  ~DesktopNotices();  // gives up what is under way
  DesktopNotices(const DesktopNotices&) = delete;
  DesktopNotices& operator=(const DesktopNotices&) = delete;

  // Takes the place of the one before that is about the same: "is back" that of "does not answer".
  void show(const Notice& notice);

 private:
  class Sending;

  asio::io_context& context_;
  std::shared_ptr<uint32_t> about_server_ = std::make_shared<uint32_t>(0);  // the desktop's number of it
  std::vector<std::weak_ptr<Sending>> sending_;
};

}  // namespace nfsrdma::cli
