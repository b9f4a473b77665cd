// SPDX-License-Identifier: Apache-2.0
#include "cli/bench/stop_signal.h"

#include <unistd.h>

namespace nfsrdma::cli::bench {
namespace {

constexpr timespec kLook{0, 50'000'000};

}  // namespace

StopSignal::StopSignal() {
  sigemptyset(&signals_);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&signals_, number);
  pthread_sigmask(SIG_BLOCK, &signals_, &before_);
  watcher_ = std::thread([this] { watch(); });
}

StopSignal::~StopSignal() {
  over_ = true;
  watcher_.join();
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

void StopSignal::watch() {
  while (!over_) {
    const int number = sigtimedwait(&signals_, nullptr, &kLook);
    if (number < 0) continue;
    if (asked_) _exit(128 + number);
    number_ = number;
    asked_ = true;
  }
}

}  // namespace nfsrdma::cli::bench
