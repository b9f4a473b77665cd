// SPDX-License-Identifier: Apache-2.0
#include "cli/notices/desktop_notices.h"

#include <fcntl.h>
#include <poll.h>
#include <systemd/sd-bus.h>
#include <unistd.h>

#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>
#include <cstdlib>
#include <cstring>
#include <string>
#include <system_error>

#include "transport/runtime/log.h"

namespace nfsrdma::cli {
namespace {

constexpr const char* kService = "org.freedesktop.Notifications";
constexpr const char* kObject = "/org/freedesktop/Notifications";
constexpr uint8_t kNormal = 1, kCritical = 2;  // Desktop Notifications Specification, "Urgency Levels"
constexpr int32_t kByTheDesktop = -1;          // the desktop decides how long it is shown

// Notification bodies may contain markup, so these characters are escaped.
std::string without_markup(const std::string& in) {
  std::string out;
  for (const char c : in) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      default: out += c;
    }
  }
  return out;
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

bool has_session_bus() {
  if (!environment("DBUS_SESSION_BUS_ADDRESS").empty()) return true;
  const std::string runtime = environment("XDG_RUNTIME_DIR");
  return !runtime.empty() && access((runtime + "/bus").c_str(), F_OK) == 0;
}

// The pending handlers own this object.
class DesktopNotices::Sending : public std::enable_shared_from_this<Sending> {
 public:
  Sending(asio::io_context& context, std::shared_ptr<uint32_t> number)
      : socket_(context), timer_(context), number_(std::move(number)) {}
  ~Sending() {
    sd_bus_slot_unref(slot_);
    if (bus_ != nullptr) sd_bus_close(bus_);
    sd_bus_unref(bus_);
  }
  Sending(const Sending&) = delete;
  Sending& operator=(const Sending&) = delete;

  void start(const Notice& notice) {
    int error = sd_bus_open_user(&bus_);
    if (error >= 0) error = call(notice);
    // The library keeps and closes its own socket, so asio gets a duplicate.
    const int fd = error >= 0 ? fcntl(sd_bus_get_fd(bus_), F_DUPFD_CLOEXEC, 3) : -1;
    if (fd < 0) return log::debug("no notice on the desktop: {}", std::strerror(error < 0 ? -error : errno));
    std::error_code refused;
    socket_.assign(fd, refused);
    if (refused) {
      close(fd);
      return;
    }
    timer_.expires_after(kPatience);
    timer_.async_wait([self = shared_from_this()](std::error_code cancelled) {
      if (!cancelled) self->stop();
    });
    drive();
  }

  void stop() {
    done_ = true;
    std::error_code ignored;
    socket_.close(ignored);
    timer_.cancel();
  }

 private:
  int call(const Notice& notice) {
    return sd_bus_call_method_async(bus_, &slot_, kService, kObject, kService, "Notify", &Sending::answered,
                                    this, "susssasa{sv}i", "nfsrdma-fuse", *number_, "nfsrdma-fuse",
                                    notice.summary.c_str(), without_markup(notice.body).c_str(), 0U, 2U,
                                    "urgency", "y", static_cast<int>(notice.urgent ? kCritical : kNormal),
                                    "desktop-entry", "s", "nfsrdma-fuse", kByTheDesktop);
  }

  static int answered(sd_bus_message* message, void* self, sd_bus_error*) {
    auto& sending = *static_cast<Sending*>(self);
    sending.done_ = true;
    if (sd_bus_message_is_method_error(message, nullptr) > 0) {
      log::debug("no notice on the desktop: {}", sd_bus_message_get_error(message)->name);
    } else {
      sd_bus_message_read(message, "u", sending.number_.get());
    }
    return 0;
  }

  // Processes messages until the library has to wait, then waits for the socket.
  void drive() {
    while (!done_) {
      const int done = sd_bus_process(bus_, nullptr);
      if (done < 0) done_ = true;
      if (done <= 0) break;
    }
    if (done_) return stop();
    const int events = sd_bus_get_events(bus_);
    if (events < 0) return stop();
    const auto go_on = [self = shared_from_this(), turn = ++turn_](std::error_code cancelled) {
      if (cancelled || self->turn_ != turn || self->done_) return;
      std::error_code ignored;
      self->socket_.cancel(ignored);  // cancels the wait for the other direction
      self->drive();
    };
    socket_.async_wait(asio::posix::stream_descriptor::wait_read, go_on);
    if ((events & POLLOUT) != 0) socket_.async_wait(asio::posix::stream_descriptor::wait_write, go_on);
  }

  asio::posix::stream_descriptor socket_;
  asio::steady_timer timer_;
  std::shared_ptr<uint32_t> number_;
  sd_bus* bus_ = nullptr;
  sd_bus_slot* slot_ = nullptr;
  uint64_t turn_ = 0;
  bool done_ = false;
};

DesktopNotices::DesktopNotices(asio::io_context& context) : context_(context) {}

DesktopNotices::~DesktopNotices() {
  for (const auto& weak : sending_) {
    if (const auto one = weak.lock()) one->stop();
  }
}

void DesktopNotices::show(const Notice& notice) {
  std::erase_if(sending_, [](const auto& weak) { return weak.expired(); });
  const bool about_server = notice.kind == NoticeKind::kSilent || notice.kind == NoticeKind::kBack;
  const auto one =
      std::make_shared<Sending>(context_, about_server ? about_server_ : std::make_shared<uint32_t>(0));
  sending_.push_back(one);
  one->start(notice);
}

}  // namespace nfsrdma::cli
