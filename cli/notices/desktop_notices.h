// SPDX-License-Identifier: Apache-2.0
// Notices on the user's desktop: org.freedesktop.Notifications on the session bus, through libsystemd's
// sd-bus.
//
// No caller waits for a notice, and it may fail to appear. Each notice uses its own connection, which the
// control thread's io_context drives. It is given up after kPatience, so a hanging bus or desktop costs
// nothing. Control thread only.
#pragma once

#include <asio/io_context.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "cli/notices/notice_watch.h"

namespace nfsrdma::cli {

// True if $DBUS_SESSION_BUS_ADDRESS is set, or the user's bus has a socket at $XDG_RUNTIME_DIR/bus.
bool has_session_bus();

class DesktopNotices {
 public:
  static constexpr std::chrono::seconds kPatience{5};

  explicit DesktopNotices(asio::io_context& context);
  ~DesktopNotices();  // cancels notices in progress
  DesktopNotices(const DesktopNotices&) = delete;
  DesktopNotices& operator=(const DesktopNotices&) = delete;

  // Replaces the previous notice about the same subject: "is back" replaces "does not answer".
  void show(const Notice& notice);

 private:
  class Sending;

  asio::io_context& context_;
  std::shared_ptr<uint32_t> about_server_ = std::make_shared<uint32_t>(0);  // the desktop's ID of that notice
  std::vector<std::weak_ptr<Sending>> sending_;
};

}  // namespace nfsrdma::cli
