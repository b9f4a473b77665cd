// SPDX-License-Identifier: Apache-2.0
#include "fuse/session.h"

#include <fcntl.h>
#include <fuse_lowlevel.h>
#include <linux/fuse.h>
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstring>
#include <thread>

#include "fuse/adaptor.h"
#include "fuse/invalidator.h"
#include "fuse/kernel_mount.h"
#include "fuse/request_timeout.h"
#include "transport/runtime/log.h"
#include "transport/runtime/mutex.h"

namespace nfsrdma::fuse {

namespace {

// mount(2) itself queues INIT. If it does not come within this time, something is very wrong.
constexpr int kHandshakeMs = 10'000;

// libfuse reports the cause of a failure only as text. While this is set, the text goes here (per thread).
thread_local std::string* captured_text = nullptr;

void log_from_libfuse(enum fuse_log_level level, const char* format, va_list arguments) {
  std::array<char, 512> text{};
  std::vsnprintf(text.data(), text.size(), format, arguments);
  std::string line(text.data());
  while (!line.empty() && line.back() == '\n') line.pop_back();
  if (captured_text != nullptr) {
    if (!captured_text->empty()) captured_text->append("; ");
    captured_text->append(line);
  }
  if (level <= FUSE_LOG_WARNING && captured_text == nullptr) {
    log::warn("{}", line);
  } else {
    log::debug("{}", line);
  }
}

class CaptureLibfuse {
 public:
  CaptureLibfuse() {
    fuse_set_log_func(log_from_libfuse);
    captured_text = &text_;
  }
  ~CaptureLibfuse() { captured_text = nullptr; }
  CaptureLibfuse(const CaptureLibfuse&) = delete;
  CaptureLibfuse& operator=(const CaptureLibfuse&) = delete;
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

struct SessionDeleter {
  void operator()(fuse_session* s) const { fuse_session_destroy(s); }
};

}  // namespace

class FuseMount::Impl {
 public:
  Impl(FuseOptions options, client::Filesystem& filesystem, LoopPool& loops, BufferPool& pool)
      : adaptor_(std::move(options), filesystem, loops, pool), invalidator_(adaptor_.inodes) {
    adaptor_.front_end = &invalidator_;
  }
  ~Impl();

  client::FrontEnd* front_end() { return &invalidator_; }
  void on_unmounted(std::function<void()> callback) { callback_ = std::move(callback); }
  Result<> start(client::Entry root);
  void unmount(bool lazy, std::function<void(Result<>)> done);
  void detach();
  bool ended() const { return ended_.load(std::memory_order_acquire); }
  size_t in_flight() const;
  FuseStatistics statistics() const;
  OperationTracer& tracer() { return adaptor_.tracer; }
  const Adaptor& adaptor() const { return adaptor_; }

 private:
  Result<> mount_session();
  Result<> shake_hands();
  void start_readers();
  Task<> serve(Adaptor::LoopSide& side);
  void reader_ended();
  void finish_loop(Adaptor::LoopSide& side);
  void finish();
  bool still_mounted() const;
  const MountNamespace& where() const { return *adaptor_.options.where; }
  bool connection_ended() const;
  void stop_invalidator();
  void refuse_requests();

  Adaptor adaptor_;
  Invalidator invalidator_;
  std::function<void()> callback_;
  std::unique_ptr<fuse_session, SessionDeleter> session_;
  std::optional<KernelMount> mount_;
  std::atomic<bool> mounted_{false};
  // The connection ended because our mount is gone. Another mount may have its place, and even its mount ID.
  std::atomic<bool> gone_{false};
  std::atomic<size_t> readers_{0};     // loops whose reader still reads
  std::atomic<size_t> unfinished_{0};  // loops that have not run finish_loop()
  std::atomic<bool> ended_{false};
  Mutex threads_mutex_;
  std::vector<std::thread> threads_ NFSRDMA_GUARDED_BY(threads_mutex_);  // started by unmount()
};

Result<> FuseMount::Impl::mount_session() {
  const std::string options = libfuse_options(adaptor_.options);
  std::array<const char*, 3> argv = {"nfsrdma-fuse", "-o", options.c_str()};
  fuse_args args = FUSE_ARGS_INIT(static_cast<int>(argv.size()), const_cast<char**>(argv.data()));
  const fuse_lowlevel_ops ops = make_operations(adaptor_.options.readdirplus);
  CaptureLibfuse capture;
  session_.reset(fuse_session_new(&args, &ops, sizeof ops, &adaptor_));
  fuse_opt_free_args(&args);
  if (!session_) return fail(system_error(EINVAL, "fuse_session_new", capture.take()));
  std::string place = adaptor_.options.mount_point;
  if (::geteuid() == 0) {
    auto device = mount_kernel(where(), adaptor_.options);
    if (!device) return fail(std::move(device).error());
    place = "/dev/fd/" + std::to_string(device->release());  // libfuse takes a connection in this form
  }
  errno = 0;
  if (fuse_session_mount(session_.get(), place.c_str()) != 0) {
    const int e = errno != 0 ? errno : EPERM;
    return fail(system_error(e, "mount", capture.take()));
  }
  mounted_ = true;
  mount_ = find_mount(where(), adaptor_.options.mount_point);
  adaptor_.session = session_.get();
  const int fd = fuse_session_fd(session_.get());
  if (::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK) != 0)
    return fail(system_error(errno, "fcntl", "/dev/fuse"));
  if (!adaptor_.handshake.install(session_.get()))
    return fail(system_error(ENOSYS, "fuse_session_custom_io"));
  return {};
}

Result<> FuseMount::Impl::shake_hands() {
  DeviceReader& reader = *adaptor_.sides[0].reader;
  CaptureLibfuse capture;
  while (!adaptor_.handshake.done()) {
    pollfd p{fuse_session_fd(session_.get()), POLLIN, 0};
    const int n = ::poll(&p, 1, kHandshakeMs);
    if (n < 0 && errno == EINTR) continue;
    if (n == 0) return fail(system_error(ETIMEDOUT, "FUSE INIT", "the kernel does not speak"));
    const auto outcome = reader.serve_one(session_.get());
    if (outcome == DeviceReader::Outcome::kNoMemory) return fail(system_error(ENOMEM, "FUSE INIT"));
    if (outcome == DeviceReader::Outcome::kEnded || fuse_session_exited(session_.get())) {
      return fail(system_error(EPROTO, "FUSE INIT", capture.take()));
    }
  }
  return {};
}

Result<> FuseMount::Impl::start(client::Entry root) {
  adaptor_.inodes.set_root(std::move(root.node));
  NFSRDMA_TRY(mount_session());
  NFSRDMA_TRY(shake_hands());
  if (const auto warning = request_timeout_warning()) log::warn("fuse: {}", *warning);
  if (adaptor_.options.read_ahead_kb && mount_) {
    if (auto set = set_read_ahead(*mount_, *adaptor_.options.read_ahead_kb); !set) {
      log::info("fuse: read-ahead stays at the kernel's default: {}", describe(set.error()));
    }
  }
  invalidator_.start(session_.get());
  adaptor_.inspector.start();
  start_readers();
  return {};
}

void FuseMount::Impl::start_readers() {
  readers_ = adaptor_.sides.size();
  unfinished_ = adaptor_.sides.size();
  for (auto& side : adaptor_.sides) side.loop->spawn(serve(side));
}

Task<> FuseMount::Impl::serve(Adaptor::LoopSide& side) {
  auto reading = side.reader->run(session_.get());
  co_await std::move(reading);
  reader_ended();
}

void FuseMount::Impl::reader_ended() {
  // Without a reader no further INTERRUPT arrives. What each loop has posted to itself so far runs before its
  // finish_loop().
  if (readers_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  // Check before anybody learns of the end, because others may then mount at the same place.
  if (!still_mounted()) gone_.store(true, std::memory_order_release);
  invalidator_.disable();
  for (auto& side : adaptor_.sides) {
    side.loop->post([this, &side] { finish_loop(side); });
  }
}

void FuseMount::Impl::finish_loop(Adaptor::LoopSide& side) {
  side.requests->answer_all(EIO);
  if (unfinished_.fetch_sub(1, std::memory_order_acq_rel) == 1) finish();
}

void FuseMount::Impl::finish() {
  fuse_session_exit(session_.get());
  adaptor_.release_everything();
  const size_t dropped = adaptor_.inodes.clear();
  log::debug("fuse: {} is unmounted; the kernel held {} inodes", adaptor_.options.mount_point, dropped);
  ended_.store(true, std::memory_order_release);
  // Last: main may destroy everything from here.
  if (const auto callback = std::move(callback_)) callback();
}

void FuseMount::Impl::detach() {
  for (auto& side : adaptor_.sides) {
    side.loop->post([&side] { side.reader->stop(); });
  }
}

void FuseMount::Impl::unmount(bool lazy, std::function<void(Result<>)> done) {
  MutexLock lock(threads_mutex_);
  const auto mount = gone_.load(std::memory_order_acquire) ? std::nullopt : mount_;
  threads_.emplace_back([where = adaptor_.options.where, mount, lazy, done = std::move(done)] {
    done(mount ? unmount_kernel(*where, *mount, lazy) : Result<>{});
  });
}

size_t FuseMount::Impl::in_flight() const {
  size_t n = 0;
  for (const auto& side : adaptor_.sides) n += side.requests->counters().in_flight.value();
  return n;
}

FuseStatistics FuseMount::Impl::statistics() const {
  FuseStatistics s = empty_statistics();
  const TimePoint now = Clock::now();
  for (const auto& side : adaptor_.sides) {
    side.requests->counters().add_to(s);
    side.requests->callers().add_to(s.callers, s.replaced_callers, now);
  }
  drop_unused(s);
  s.kernel_inodes = adaptor_.inodes.size();
  const Invalidator::Numbers n = invalidator_.numbers();
  s.invalidations = n.sent;
  s.invalidations_merged = n.merged;
  s.invalidation_floods = n.floods;
  return s;
}

// No loop reads the device any more, but the invalidator may be in the kernel, where it waits for a request
// to be answered. So answer all requests with ENOTCONN.
void FuseMount::Impl::refuse_requests() {
  const int fd = fuse_session_fd(session_.get());
  const size_t size = BufferPool::kMaxBytes;
  const BufferRef buffer = adaptor_.pool.get(size);
  if (!buffer) return;
  for (ssize_t n = 0;
       (n = ::read(fd, buffer->data(), size)) >= static_cast<ssize_t>(sizeof(fuse_in_header));) {
    fuse_in_header in{};
    std::memcpy(&in, buffer->data(), sizeof in);
    if (in.opcode == FUSE_FORGET || in.opcode == FUSE_BATCH_FORGET || in.opcode == FUSE_INTERRUPT) continue;
    const fuse_out_header out{sizeof out, -ENOTCONN, in.unique};
    if (::write(fd, &out, sizeof out) < 0 && errno != ENOENT) return;
  }
}

void FuseMount::Impl::stop_invalidator() {
  invalidator_.disable();
  while (!invalidator_.idle()) {
    if (session_ && fuse_session_fd(session_.get()) >= 0) refuse_requests();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  invalidator_.join();
}

bool FuseMount::Impl::still_mounted() const {
  if (!mount_) return true;
  const auto now = find_mount(where(), mount_->mount_point);
  return now && now->id == mount_->id;
}

bool FuseMount::Impl::connection_ended() const {
  pollfd device{fuse_session_fd(session_.get()), 0, 0};
  return ::poll(&device, 1, 0) == 1 && (device.revents & POLLERR) != 0;
}

FuseMount::Impl::~Impl() {
  stop_invalidator();
  adaptor_.inspector.stop();
  if (session_) {
    // Close the device, which ends the connection, and remove what is still mounted. If our mount is gone, do
    // not: another one may have its place. If the connection has ended as well, this is safe: libfuse then
    // unmounts nothing and only frees its own state.
    const bool there = mounted_ && (still_mounted() || connection_ended());
    if (there) fuse_session_unmount(session_.get());
    fuse_session_exit(session_.get());
    session_.reset();
    // For a mount by root libfuse has only the descriptor, which it has closed.
    if (there && !gone_.load(std::memory_order_acquire) && mount_ && ::geteuid() == 0)
      (void)unmount_kernel(where(), *mount_, true);
  }
  // Join only now: the inspector may have waited for requests that end only with the connection.
  adaptor_.inspector.join();
  MutexLock lock(threads_mutex_);
  for (std::thread& t : threads_) t.join();
}

FuseMount::FuseMount(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
FuseMount::~FuseMount() = default;

Result<std::unique_ptr<FuseMount>> FuseMount::create(FuseOptions options, client::Filesystem& filesystem,
                                                     LoopPool& loops, BufferPool& pool) {
  auto resolved = resolve_mount_point(*options.where, options.mount_point);
  if (!resolved) return fail(std::move(resolved).error());
  options.mount_point = std::move(*resolved);
  if (options.allow_root && options.allow_other) {
    return fail(system_error(EINVAL, "options", "allow_root and allow_other exclude each other"));
  }
  if (::access("/dev/fuse", R_OK | W_OK) != 0) {
    return fail(
        system_error(errno, "/dev/fuse", errno == ENOENT ? "is the module loaded? run 'modprobe fuse'" : ""));
  }
  auto impl = std::make_unique<Impl>(std::move(options), filesystem, loops, pool);
  return std::unique_ptr<FuseMount>(new FuseMount(std::move(impl)));
}

client::FrontEnd* FuseMount::front_end() {
  return impl_->front_end();
}
void FuseMount::on_unmounted(std::function<void()> callback) {
  impl_->on_unmounted(std::move(callback));
}
Result<> FuseMount::start(client::Entry root) {
  return impl_->start(std::move(root));
}
void FuseMount::unmount(bool lazy, std::function<void(Result<>)> done) {
  impl_->unmount(lazy, std::move(done));
}
void FuseMount::detach() {
  impl_->detach();
}
bool FuseMount::ended() const {
  return impl_->ended();
}
size_t FuseMount::in_flight() const {
  return impl_->in_flight();
}
OperationTracer& FuseMount::tracer() {
  return impl_->tracer();
}

std::string FuseMount::path_of(client::NodeRef node, std::string name) const {
  return impl_->adaptor().path_of(std::move(node), std::move(name));
}

FuseStatistics FuseMount::statistics() const {
  return impl_->statistics();
}

std::string libfuse_version() {
  return fuse_pkgversion();
}

}  // namespace nfsrdma::fuse
