// SPDX-License-Identifier: Apache-2.0
#include "fuse/statistics.h"

#include <algorithm>

namespace nfsrdma::fuse {

namespace {
constexpr std::array<std::string_view, kOperations> kNames = {
    "LOOKUP",   "FORGET", "GETATTR", "SETATTR", "ACCESS",  "READLINK", "MKNOD",       "MKDIR",
    "UNLINK",   "RMDIR",  "SYMLINK", "RENAME",  "LINK",    "OPEN",     "CREATE",      "READ",
    "WRITE",    "FLUSH",  "FSYNC",   "RELEASE", "OPENDIR", "READDIR",  "READDIRPLUS", "RELEASEDIR",
    "FSYNCDIR", "STATFS", "GETLK",   "SETLK",   "FLOCK",   "IOCTL"};
}  // namespace

std::string_view name_of(Operation operation) {
  return kNames[static_cast<size_t>(operation)];
}

void OperationCounters::answered(Operation operation, int errnum, std::chrono::nanoseconds took) {
  PerOperation& o = operations_[static_cast<size_t>(operation)];
  const auto ns = static_cast<uint64_t>(took.count());
  if (errnum != 0) o.errors.add();
  o.total_ns.add(ns);
  o.max_ns.raise_to(ns);
  o.latency.record(took);
}

void OperationCounters::add_to(FuseStatistics& sum) const {
  for (size_t i = 0; i < kOperations; ++i) {
    FuseOperationStatistics& to = sum.operations[i];
    to.count += operations_[i].latency.add_to(to.latency);
    to.errors += operations_[i].errors.value();
    to.total_us += operations_[i].total_ns.value() / 1000;
    to.max_us = std::max(to.max_us, operations_[i].max_ns.value() / 1000);
  }
  sum.read_bytes += read_bytes.value();
  sum.write_bytes += write_bytes.value();
  sum.in_flight += in_flight.value();
  sum.interrupts += interrupts.value();
  sum.early_answers += early_answers.value();
  sum.undone += undone.value();
  sum.unanswered += unanswered.value();
}

FuseStatistics empty_statistics() {
  FuseStatistics s;
  for (std::string_view name : kNames) s.operations.push_back({.name = name});
  return s;
}

void drop_unused(FuseStatistics& statistics) {
  std::erase_if(statistics.operations, [](const FuseOperationStatistics& o) { return o.count == 0; });
}

}  // namespace nfsrdma::fuse
