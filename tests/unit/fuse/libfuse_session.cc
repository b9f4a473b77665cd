// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/fuse/libfuse_session.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/fuse.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <latch>

namespace nfsrdma::fuse::test {

namespace {

Task<> wait(FuseRequest request, std::shared_ptr<Completion<bool>> gate) {
  auto opened = gate->wait();
  co_await opened;
  request.error(0);
}

}  // namespace

LibfuseSession::LibfuseSession(Loop& loop, LoopRequests& requests) : loop_(loop), requests_(requests) {
  std::array<char*, 1> argv = {const_cast<char*>("test")};
  fuse_args args = FUSE_ARGS_INIT(1, argv.data());
  fuse_lowlevel_ops ops{};
  ops.read = op_read;
  ops.getattr = op_getattr;
  session_ = fuse_session_new(&args, &ops, sizeof ops, this);
  fuse_custom_io io{};
  io.writev = take_reply;
  io.read = nothing_to_read;
  EXPECT_EQ(fuse_session_custom_io(session_, &io, ::open("/dev/null", O_RDWR | O_CLOEXEC)), 0);
  fuse_init_in init{};
  init.major = FUSE_KERNEL_VERSION;
  init.minor = 31;
  on_loop([&] { send(FUSE_INIT, 1, 0, init); });
}

LibfuseSession::~LibfuseSession() {
  on_loop([this] { fuse_session_destroy(session_); });
}

void LibfuseSession::on_loop(const std::function<void()>& what) {
  std::latch done(1);
  loop_.post([&] {
    what();
    done.count_down();
  });
  done.wait();
}

template <class Argument>
void LibfuseSession::send(uint32_t opcode, uint64_t unique, pid_t caller, const Argument& argument) {
  struct {
    fuse_in_header header;
    Argument argument;
  } message{};
  message.header.len = sizeof message;
  message.header.opcode = opcode;
  message.header.unique = unique;
  message.header.nodeid = FUSE_ROOT_ID;
  message.header.pid = static_cast<uint32_t>(caller);
  message.argument = argument;
  fuse_buf buffer{};
  buffer.size = sizeof message;
  buffer.mem = &message;
  sending_ = unique;
  fuse_session_process_buf(session_, &buffer);
}

uint64_t LibfuseSession::read(pid_t caller) {
  const uint64_t unique = next_++;
  fuse_read_in in{};
  in.size = 4096;
  on_loop([&] { send(FUSE_READ, unique, caller, in); });
  return unique;
}

uint64_t LibfuseSession::getattrs(pid_t caller, size_t count) {
  const uint64_t first = std::exchange(next_, next_ + count);
  on_loop([&] {
    for (size_t i = 0; i < count; ++i) send(FUSE_GETATTR, first + i, caller, fuse_getattr_in{});
  });
  return first;
}

void LibfuseSession::interrupt(uint64_t request) {
  on_loop([&] { send(FUSE_INTERRUPT, next_++, 0, fuse_interrupt_in{request}); });
}

void LibfuseSession::answer(uint64_t request) {
  on_loop([&] { gates_.extract(request).mapped()->set(true); });
}

void LibfuseSession::answer_all() {
  on_loop([&] {
    for (const auto& [unique, gate] : std::exchange(gates_, {})) gate->set(true);
  });
}

bool LibfuseSession::answered(uint64_t request) const {
  std::lock_guard lock(mutex_);
  return answers_.contains(request);
}

int LibfuseSession::error_of(uint64_t request) const {
  std::lock_guard lock(mutex_);
  return answers_.at(request);
}

size_t LibfuseSession::answers() const {
  std::lock_guard lock(mutex_);
  return answers_.size();
}

void LibfuseSession::wait_in(fuse_req_t req, Operation operation) {
  auto& self = *static_cast<LibfuseSession*>(fuse_req_userdata(req));
  const auto gate = std::make_shared<Completion<bool>>();
  self.gates_[self.sending_] = gate;
  FuseRequest request(self.requests_, req, operation);
  self.requests_.launch(wait(std::move(request), gate));
}

void LibfuseSession::op_read(fuse_req_t req, fuse_ino_t, size_t, off_t, fuse_file_info*) {
  wait_in(req, Operation::kRead);
}

void LibfuseSession::op_getattr(fuse_req_t req, fuse_ino_t, fuse_file_info*) {
  wait_in(req, Operation::kGetattr);
}

ssize_t LibfuseSession::take_reply(int, iovec* pieces, int count, void* userdata) {
  auto& self = *static_cast<LibfuseSession*>(userdata);
  fuse_out_header header{};
  std::memcpy(&header, pieces[0].iov_base, sizeof header);
  std::lock_guard lock(self.mutex_);
  if (header.unique > 1) self.answers_[header.unique] = -header.error;
  ssize_t size = 0;
  for (int i = 0; i < count; ++i) size += static_cast<ssize_t>(pieces[i].iov_len);
  return size;
}

}  // namespace nfsrdma::fuse::test
