// SPDX-License-Identifier: Apache-2.0
#include "cli/mount/mount_daemon.h"

#include <fmt/core.h>
#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/signal_set.hpp>
#include <asio/steady_timer.hpp>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <thread>

#include "cli/control/control_path.h"
#include "cli/control/control_server.h"
#include "cli/mount/confinement.h"
#include "cli/mount/kerberos_helper.h"
#include "cli/mount/ladder.h"
#include "cli/mount/mount_guard.h"
#include "cli/mount/mount_point.h"
#include "cli/notices/desktop_notices.h"
#include "cli/notices/notice_watch.h"
#include "cli/options/log_setup.h"
#include "cli/options/option_table.h"
#include "cli/server/explain.h"
#include "cli/server/retry.h"
#include "cli/server/translate.h"
#include "cli/stats/metrics_server.h"
#include "cli/stats/snapshot.h"
#include "cli/support/process.h"
#include "cli/support/version.h"
#include "cli/trace/trace_sessions.h"
#include "client/api/make_filesystem.h"
#include "fuse/session.h"
#include "transport/fabric/verbs/verbs.h"
#include "transport/memory/available_memory.h"
#include "transport/runtime/log.h"

namespace nfsrdma::cli {
namespace {

using namespace std::chrono_literals;
using client::Entry;

// No limit in practice, but far from the end of the clock's range.
constexpr std::chrono::hours kForEver{24 * 365 * 10};
// Limits of the unused buffers that the pool keeps, in bytes: permanently, and for ten seconds after their
// use (the buffers that a writer fills until COMMIT).
constexpr size_t kKeptMemory = 64u << 20;
constexpr size_t kKeptLately = 256u << 20;
size_t kept(size_t most) {
  return std::min<size_t>(most, memory_for_us().available / 8);
}
// How long a failed mount may take to end its session at the server.
constexpr std::chrono::seconds kFarewell{1};
// If no reply has come within this time, the user gets a message; with retry=0 the attempt ends. `probe` uses
// the same limit.
constexpr std::chrono::seconds kFirstWord{10};
// The interval of checks for notices: a fraction of NoticeWatch::kSilence.
constexpr std::chrono::seconds kLookForNotices{3};
// How long the daemon may take to remove the mount after a second signal.
constexpr std::chrono::seconds kLastMoments{3};

std::string machine_name() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "localhost";
}

// Coroutines that use the client, started on a loop. `done` passes the result to the control thread. After a
// failed attempt the session is ended, so that the client is idle: the next attempt has its own client.
Task<> attempt(client::Filesystem& filesystem, client::FrontEnd* front_end,
               std::function<void(Result<Entry>)> done) {
  Task<Result<Entry>> mounting = filesystem.mount(front_end);
  Result<Entry> root = co_await std::move(mounting);
  if (!root) {
    Task<bool> unmounting = filesystem.unmount(kFarewell);
    co_await std::move(unmounting);
  }
  done(std::move(root));
}

Task<> drain(client::Filesystem& filesystem, Duration patience, std::function<void(bool)> done) {
  Task<bool> unmounting = filesystem.unmount(patience);
  const bool clean = co_await std::move(unmounting);
  done(clean);
}

// Gives cancelled coroutines time to end: those that sleep check for cancellation every 100 ms.
void settle(LoopPool& loops) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(500);
  const auto busy = [&loops] {
    for (unsigned i = 0; i < loops.size(); ++i) {
      if (loops[i].live_tasks() != 0) return true;
    }
    return false;
  };
  while (busy() && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

class MountDaemon {
 public:
  MountDaemon(const MountPlan& plan, Reporter& reporter)
      : plan_(plan),
        ladder_(plan.options, fabric::verbs::missing({})),
        reporter_(reporter),
        policy_(plan.options, std::chrono::steady_clock::now()),
        loops_(loop_count(plan.options, std::thread::hardware_concurrency())) {}

  int run() {
    prepare_daemon_process();
    if (auto done = start_guard(); !done) {
      reporter_.failed(done.error());
      return done.error().exit_code;
    }
    if (auto done = start_kerberos(); !done) {
      reporter_.failed(done.error());
      return done.error().exit_code;
    }
    auto where = enter_mount_namespace(plan_.mount_namespace);
    if (!where) {
      reporter_.failed(where.error());
      return where.error().exit_code;
    }
    where_ = *std::move(where);
    if (auto done = open_log(plan_.options); !done) {
      reporter_.failed(done.error());
      return done.error().exit_code;
    }
    for (const std::string& text : plan_.skipped) log::warn("sloppy: {}", text);
    confine_daemon(*where_);
    if (auto done = check_rotation(log_settings(plan_.options, plan_.mount_point, plan_.foreground)); !done)
      log::warn("SIGHUP, as log rotation sends it, will fail: {}", done.error().text);
    for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2}) signals_.add(number);
    wait_for_signal();
    loops_.start();
    first_attempt_limit();
    begin_attempt();
    control_.run();
    settle(loops_);
    loops_.stop_and_join();
    mount_.reset();
    filesystem_.reset();
    return exit_code_;
  }

 private:
  enum class Stage : uint8_t {
    kAttempting,  // an attempt is in progress
    kPausing,     // after a passing failure
    kStarting,    // the server returned the root; the kernel mounts
    kMounted,
    kUnmounting,  // the kernel has unmounted or is unmounting; the client writes back
    kFailed,      // ending the session at the server
  };

  // --- mounting

  Outcome<> open_log(const MountOptions& options) {
    return log_.apply(log_settings(options, plan_.mount_point, plan_.foreground));
  }

  Outcome<> start_guard() {
    if (!plan_.options.auto_unmount) return {};
    auto guard = MountGuard::start(plan_.mount_namespace);
    if (!guard) return tl::unexpected(std::move(guard).error());
    guard_ = *std::move(guard);
    return {};
  }

  // The helper must be forked now: later the process has threads, and as root may start no process.
  Outcome<> start_kerberos() {
    if (!plan_.options.may_use_kerberos()) return {};
    auto tokens = start_kerberos_helper();
    if (!tokens) return tl::unexpected(std::move(tokens).error());
    tokens_ = *std::move(tokens);
    return {};
  }

  void begin_attempt() {
    stage_ = Stage::kAttempting;
    if (!find_mount_point()) return;
    if (const std::string text = ladder_.announcement(); !text.empty())
      log::info("{}: {}", plan_.source.text, text);
    make_filesystem();
    fuse::FuseOptions options =
        make_fuse_options(ladder_.options(), plan_.source, mount_point_, machine_name(), plan_.root);
    options.where = where_;
    auto mount = fuse::FuseMount::create(std::move(options), *filesystem_, loops_, pool_);
    if (!mount) return fail(mount.error());
    mount_ = *std::move(mount);
    timer_.expires_at(policy_.deadline());
    timer_.async_wait([this](std::error_code cancelled) {
      if (!cancelled && stage_ == Stage::kAttempting) attempt_too_long();
    });
    watch_silence();
    loops_[0].spawn(attempt(*filesystem_, mount_->front_end(), [this](Result<Entry> root) {
      asio::post(control_, [this, result = std::move(root)]() mutable { attempt_ended(std::move(result)); });
    }));
  }

  // Detects a server that accepts the connection and sends nothing, or a network that drops everything.
  void watch_silence() {
    silence_timer_.expires_after(kFirstWord);
    silence_timer_.async_wait([this](std::error_code cancelled) {
      if (cancelled || stage_ != Stage::kAttempting || heard()) return;
      last_error_ = fmt::format("{}: no answer within {} s", operation_under_way(filesystem_->statistics()),
                                kFirstWord.count());
      if (plan_.options.retry_time() == 0ms) return attempt_too_long();
      say_progress(last_error_, "still waiting");
    });
  }

  bool heard() const {
    const auto transports = filesystem_->statistics().transports;
    return std::any_of(transports.begin(), transports.end(), [](const auto& t) { return t.replies != 0; });
  }

  void say_progress(const std::string& why, const std::string& then) {
    if (!plan_.options.background)
      reporter_.progress(fmt::format("{}: {}; {}", plan_.source.text, why, then));
  }

  void make_filesystem() {
    client::ClientOptions options = ladder_.client_options(plan_.source, plan_.root);
    options.tap = capture_;
    if (client::uses_kerberos(options.flavor)) options.tokens = tokens_;
    if (ladder_.options().major_version == 3) {
      filesystem_ = client::make_nfs3_filesystem(loops_, pool_, std::move(options));
    } else {
      filesystem_ = client::make_nfs4_filesystem(loops_, pool_, std::move(options));
    }
  }

  // With bg the directory may appear later (nfs(5)). Without bg it was checked before the fork.
  bool find_mount_point() {
    const auto table = read_mountinfo(*where_);
    auto path = where_->run([&] { return check_mount_point(table, plan_.mount_point, geteuid()); });
    if (path) {
      mount_point_ = *std::move(path);
      return true;
    }
    const Failure& failure = path.error().failure;
    if (!plan_.options.background || !path.error().passing) {
      fail(failure);
    } else {
      Error missing = system_error(ENOENT, "mount", failure.text);
      missing.recovery = Recovery::kRetry;
      pause(missing);
    }
    return false;
  }

  void attempt_ended(Result<Entry> root) {
    if (stage_ != Stage::kAttempting) return;
    if (root) return finish_mount(*std::move(root));
    mount_.reset();
    filesystem_.reset();
    if (ladder_.step_down(root.error())) return begin_attempt();
    const Error error = ladder_.verdict(std::move(root.error()));
    last_error_ = describe(error);
    pause(error);
  }

  void pause(const Error& error) {
    const auto wait = policy_.after_failure(error, std::chrono::steady_clock::now());
    if (!wait) return fail(error);
    stage_ = Stage::kPausing;
    const std::string line = fmt::format("{}: {}; trying again", plan_.source.text, describe(error));
    if (plan_.options.background) go_to_background(line);
    const auto minutes = std::chrono::duration_cast<std::chrono::minutes>(plan_.options.retry_time());
    const std::string hint = server_hint(error, ladder_.options(), plan_.root);
    say_progress(describe(error), hint + fmt::format("trying again for {} min", minutes.count()));
    log::debug("{}", line);
    timer_.expires_after(*wait);
    timer_.async_wait([this](std::error_code cancelled) {
      if (cancelled || stage_ != Stage::kPausing) return;
      ladder_.begin_again();
      begin_attempt();
    });
  }

  void go_to_background(const std::string& why) {
    if (std::exchange(backgrounded_, true)) return;
    log::warn("{} in the background", why);
    reporter_.background(why + " in the background");
  }

  // With bg the user waits for the first attempt, but not longer than its time limit: a server may accept the
  // connection and stay silent.
  void first_attempt_limit() {
    if (!plan_.options.background) return;
    patience_timer_.expires_after(longest_attempt(plan_.options));
    patience_timer_.async_wait([this](std::error_code cancelled) {
      if (cancelled || (stage_ != Stage::kAttempting && stage_ != Stage::kPausing)) return;
      const std::string why = last_error_.empty() ? no_answer() : last_error_;
      go_to_background(fmt::format("{}: {}; trying on", plan_.source.text, why));
    });
  }

  // The attempt cannot be cancelled: a request that was sent keeps its session slot until the reply arrives
  // (slot_table.h). But the process can exit, because nothing is mounted yet.
  void attempt_too_long() {
    const std::string why = last_error_.empty() ? no_answer() : last_error_;
    end_now(Failure(MountExit::kFailed, fmt::format("{}: {}; {}", plan_.source.text, why, advice())));
  }

  void finish_mount(Entry root) {
    timer_.cancel();
    patience_timer_.cancel();
    silence_timer_.cancel();
    stage_ = Stage::kStarting;
    mount_->on_unmounted([this] { asio::post(control_, [this] { kernel_has_gone(); }); });
    if (auto started = mount_->start(std::move(root)); !started) return fail(started.error());
    stage_ = Stage::kMounted;
    // A mount with sec=sys needs no helper any more; closing its socket ends it.
    const auto flavor = ladder_.options().security;
    if (std::none_of(flavor.begin(), flavor.end(), client::uses_kerberos)) tokens_.reset();
    find_mount();
    serve_metrics();
    log::info("mounted {}, {}", plan_.source.text, snapshot().mount_options);
    if (const std::string text = ladder_.warning(); !text.empty()) {
      log::warn("{}: {}", plan_.source.text, text);
      // A user who requested vers=3 knows this.
      if (plan_.options.major_version != 3)
        reporter_.progress(fmt::format("{}: {}", plan_.source.text, text));
    }
    reporter_.ready();
    watch_for_notices();
  }

  // --- notices

  // Shows desktop notices only if the mount belongs to an ordinary user who has a desktop session.
  void watch_for_notices() {
    if (plan_.root || !plan_.options.notices || !has_session_bus()) return;
    notices_.emplace(control_);
    look_for_notices();
  }

  void look_for_notices() {
    notice_timer_.expires_after(kLookForNotices);
    notice_timer_.async_wait([this](std::error_code cancelled) {
      if (cancelled || stage_ != Stage::kMounted || !notices_) return;
      for (const NoticeKind kind : notice_watch_.look(notice_input(), std::chrono::steady_clock::now()))
        notices_->show(notice_of(kind, plan_.source.text, mount_point_));
      look_for_notices();
    });
  }

  NoticeInput notice_input() const {
    const client::Statistics statistics = filesystem_->statistics();
    NoticeInput input{Duration::zero(), statistics.cache.room_errors, statistics.cache.locks_lost};
    for (const rpc::TransportStatus& t : statistics.transports) {
      if (!t.responding)
        input.silent_for =
            std::max<Duration>(input.silent_for, std::chrono::steady_clock::now() - t.stalled_since);
    }
    return input;
  }

  void find_mount() {
    const auto table = read_mountinfo(*where_);
    const MountEntry* entry = mount_at(table, mount_point_);
    if (entry == nullptr || !entry->ours())
      return log::warn("no control socket: the mount is not in the mount table");
    if (guard_) guard_->arm(*entry);
    open_control_socket(*entry);
  }

  // A failure is only a warning: the mount works without the metrics.
  void serve_metrics() {
    if (!plan_.options.metrics) return;
    auto server = MetricsServer::create(control_, *plan_.options.metrics,
                                        [this] { return stats_prometheus({snapshot()}); });
    if (!server) {
      const std::string text = "the metrics are not served: " + server.error().text;
      log::warn("{}", text);
      return reporter_.progress(fmt::format("{}: {}", plan_.source.text, text));
    }
    metrics_ = *std::move(server);
    if (!plan_.options.metrics->local() && !plan_.options.metrics->loopback())
      log::warn("metrics={}: whoever reaches this address can read them", plan_.options.metrics->text());
  }

  std::string advice() const { return probe_advice(plan_.source, plan_.options); }
  // Advises a probe of the server's root if the path does not exist: a probe of the same path would fail as
  // well.
  std::string advice(const Error& error) const {
    const bool absent = error.layer == Layer::kNfs && error.errnum == ENOENT;
    if (!absent || plan_.source.path == "/" || ladder_.options().major_version == 3) return advice();
    return exports_advice(ladder_.client_options(plan_.source, plan_.root));
  }

  std::string no_answer() const {
    const auto operation = filesystem_ ? operation_under_way(filesystem_->statistics()) : "mount";
    return fmt::format("{}: no answer in time", operation);
  }

  // A failure of this machine is reported with its own advice. A failure of the server is reported with the
  // server's name and the next step.
  void fail(const Error& error) {
    const std::string text = fmt::format("{}: {}", plan_.source.text, describe(error));
    if (error.layer == Layer::kFuse || error.layer == Layer::kSystem) {
      const bool permission = error.errnum == EPERM || error.errnum == EACCES;
      return fail(Failure(permission ? MountExit::kUsage : MountExit::kFailed, text + mount_advice(error)));
    }
    const std::string hint = server_hint(error, ladder_.options(), plan_.root);
    fail(Failure(MountExit::kFailed, fmt::format("{}; {}{}", text, hint, advice(error))));
  }

  void fail(const Failure& failure) {
    tell(failure);
    const bool answered = stage_ == Stage::kStarting;
    stage_ = Stage::kFailed;
    if (!answered) return finish();
    // End the session now, so that the server need not wait for its lease to expire.
    loops_[0].spawn(
        drain(*filesystem_, kFarewell, [this](bool) { asio::post(control_, [this] { finish(); }); }));
  }

  void tell(const Failure& failure) {
    exit_code_ = failure.exit_code;
    reporter_.failed(failure);
    if (backgrounded_) log::error("{}", failure.text);
  }

  [[noreturn]] void end_now(const Failure& failure) {
    tell(failure);
    std::_Exit(exit_code_);
  }

  // --- the control socket

  void open_control_socket(const MountEntry& entry) {
    const auto path = make_control_path(system_control_places(), geteuid(), entry.major, entry.minor);
    if (!path) return log::warn("no control socket: {}", path.error().text);
    auto server = ControlServer::create(control_, *path, handlers());
    if (!server) return log::warn("no control socket: {}", server.error().text);
    server_ = *std::move(server);
    TraceSessions::Sources sources;
    sources.tracer = &mount_->tracer();
    sources.path_of = [this](client::NodeRef node, std::string name) {
      return mount_->path_of(std::move(node), std::move(name));
    };
    if (ladder_.options().major_version != 3) sources.capture = capture_;
    traces_ = std::make_unique<TraceSessions>(control_, std::move(sources));
  }

  ControlServer::Handlers handlers() {
    using Reply = ControlServer::Reply;
    ControlServer::Handlers all;
    all["status"] = [this](const Json&, const Reply& reply) { reply(to_json(snapshot())); };
    all["stats"] = all["status"];
    all["log-level"] = [](const Json& request, const Reply& reply) {
      if (const auto wanted = request.find("level"); wanted != request.end()) {
        const auto level = wanted->is_string() ? parse_log_level(wanted->get<std::string>()) : std::nullopt;
        if (!level)
          return reply(refuse(ToolExit::kFailed, "the levels are error, warning, info, debug and trace"));
        set_log_level(*level);
      }
      reply(Json{{"level", to_string(cli::log_level())}});
    };
    all["trace"] = [this](const Json& request, const Reply& reply) { reply(traces_->answer(request)); };
    all["watch"] = [this](const Json&, Reply reply) { watchers_.add(std::move(reply)); };
    all["abort"] = [this](const Json&, const Reply& reply) {
      log::warn("told to give up; {} bytes are not on the server", unwritten());
      reply(Json{{"unwritten_bytes", unwritten()}});
      give_up();
    };
    return all;
  }

  Snapshot snapshot() const {
    Snapshot s;
    s.version = kVersion;
    s.pid = static_cast<uint64_t>(getpid());
    s.state = stage_ == Stage::kMounted ? "mounted" : "unmounting";
    s.responding = filesystem_->responding();
    s.source = plan_.source.text;
    s.mount_point = mount_point_;
    s.notice = ladder_.notice();
    s.log_level = to_string(cli::log_level());
    s.client = filesystem_->statistics();
    s.mount_options = show_options(options_now(s.client));
    s.found_transport = plan_.options.transport == Transport::kAuto;
    s.fuse = make_fuse_snapshot(mount_->statistics());
    const ResidentMemory memory = resident_memory();
    s.memory = {memory.bytes, memory.huge_bytes, pool_.outstanding_bytes(), pool_.idle_bytes()};
    return s;
  }

  MountOptions options_now(const client::Statistics& client) const {
    MountOptions options = options_in_use(ladder_.options(), plan_.root, client.transports);
    // The kernel knows whether the mount is read-only: mount -o remount changes it without the daemon.
    for (const MountEntry& entry : read_mountinfo(*where_)) {
      if (entry.ours() && entry.mount_point == mount_point_) options.read_only = entry.read_only();
    }
    return options;
  }

  // The bytes that are not yet on the server. Data that the server refused counts only if it was refused
  // after the kernel's unmount: before, fsync or close reports it.
  uint64_t unwritten() const {
    const client::CacheStatistics cache = filesystem_->statistics().cache;
    const uint64_t refused = kernel_gone_ ? cache.refused_bytes - refused_before_ : 0;
    return cache.dirty_bytes + cache.uncommitted_bytes + refused;
  }

  // --- unmounting

  // Unmounts first without MNT_DETACH, because the kernel then writes its dirty pages back. If this fails
  // (the mount is busy), detaches the mount.
  void unmount_ourselves() {
    stage_ = Stage::kUnmounting;
    notify_service_manager("STOPPING=1");
    mount_->unmount(false, [this](const Result<>& done) {
      asio::post(control_,
                 [this, ok = done.has_value(), text = done ? std::string() : describe(done.error())] {
                   if (ok || kernel_gone_) return;
                   log::warn("{}; files that are still open end with an error", text);
                   mount_->unmount(true, [](const Result<>&) {});
                   mount_->detach();
                 });
    });
  }

  // Called when the kernel has unmounted, because of umount(8), fusermount3 or this daemon.
  void kernel_has_gone() {
    if (std::exchange(kernel_gone_, true)) return;
    if (guard_) guard_->disarm();
    stage_ = Stage::kUnmounting;
    notify_service_manager("STOPPING=1");
    refused_before_ = filesystem_->statistics().cache.refused_bytes;  // fsync or close reported these
    log::info("unmounting");
    loops_[0].spawn(drain(*filesystem_, patience_,
                          [this](bool clean) { asio::post(control_, [this, clean] { drained(clean); }); }));
  }

  void drained(bool clean) {
    const uint64_t lost = unwritten();
    if (lost != 0) log::error("{} bytes could not be written to the server", lost);
    if (!clean) log::warn("the server was not told that this mount has ended; its lease will expire");
    if (lost != 0) exit_code_ = static_cast<int>(MountExit::kFailed);
    log::info("unmounted");
    watchers_.answer({{"clean", clean}, {"unwritten_bytes", lost}});
    finish();
  }

  // Cancels everything that keeps control_ running. Answers that are being written to tools are completed
  // first.
  void finish() {
    server_.reset();
    traces_.reset();
    metrics_.reset();
    signals_.cancel();
    timer_.cancel();
    patience_timer_.cancel();
    silence_timer_.cancel();
    notice_timer_.cancel();
    notices_.reset();
  }

  // --- signals

  void wait_for_signal() {
    signals_.async_wait([this](std::error_code cancelled, int number) {
      if (cancelled) return;
      wait_for_signal();
      handle_signal(number);
    });
  }

  void handle_signal(int number) {
    switch (number) {
      case SIGHUP: return reload();
      case SIGUSR1: return log_statistics();
      case SIGUSR2: {
        set_log_level(next_log_level(cli::log_level()));
        return log::info("log_level={}", to_string(cli::log_level()));
      }
      default: break;
    }
    switch (stage_) {
      case Stage::kAttempting:
      case Stage::kPausing:
      case Stage::kStarting:
        end_now(Failure(MountExit::kInterrupted,
                        fmt::format("{}: mount: interrupted; {}", plan_.source.text, advice())));
      case Stage::kMounted: log::info("signal {}: unmounting", number); return unmount_ourselves();
      case Stage::kFailed: std::_Exit(exit_code_);
      case Stage::kUnmounting:
        log::error("second signal: ending with {} bytes that are not on the server", unwritten());
        return give_up();
    }
  }

  void reload() {
    const auto options = reread_options(plan_);
    if (!options) return log::warn("reload: {}", options.error().text);
    const auto done = open_log(*options);
    if (!done) return log::warn("reload: {}", done.error().text);
    const std::string later = fixed_changes(plan_.options, *options);
    if (!later.empty()) log::warn("reload: not changed while mounted: {}", later);
    log::info("reloaded");
  }

  void log_statistics() {
    if (!mount_) return log::info("not mounted yet");
    const Snapshot s = snapshot();
    const std::string text = stats_table(s, static_cast<double>(s.client.age_seconds), {true, true});
    for (size_t at = 0; at < text.size();) {
      const size_t end = std::min(text.find('\n', at), text.size());
      if (end != at) log::info("{}", text.substr(at, end - at));
      at = end + 1;
    }
  }

  // Ends without waiting for the server: running programs get errors, and unwritten data is lost.
  void give_up() {
    if (std::exchange(given_up_, true)) return;
    stage_ = Stage::kUnmounting;
    patience_ = 0s;
    timer_.expires_after(kLastMoments);
    timer_.async_wait([this](std::error_code cancelled) {
      if (!cancelled) std::_Exit(static_cast<int>(MountExit::kFailed));
    });
    if (!kernel_gone_) {
      mount_->unmount(true, [](const Result<>&) {});
      mount_->detach();
      return;
    }
    // The client is writing back, which cannot be cancelled. The process can exit.
    const uint64_t lost = unwritten();
    watchers_.answer({{"clean", false}, {"unwritten_bytes", lost}});
    server_.reset();
  }

  const MountPlan& plan_;
  Ladder ladder_;
  Reporter& reporter_;
  RetryPolicy policy_;
  ProcessLog log_;
  std::optional<MountGuard> guard_;
  std::shared_ptr<security::TokenSource> tokens_;
  NamespaceRef where_;
  asio::io_context control_{1};
  asio::signal_set signals_{control_};
  asio::steady_timer timer_{control_};           // the pause, or the limit of an attempt or of the end
  asio::steady_timer patience_timer_{control_};  // bg: the limit of the first attempt
  asio::steady_timer silence_timer_{control_};   // of an attempt that has received no reply yet
  asio::steady_timer notice_timer_{control_};
  std::optional<DesktopNotices> notices_;
  NoticeWatch notice_watch_;
  Stage stage_ = Stage::kAttempting;
  bool backgrounded_ = false;
  bool kernel_gone_ = false;
  bool given_up_ = false;
  uint64_t refused_before_ = 0;
  Duration patience_ = kForEver;
  int exit_code_ = 0;
  std::string mount_point_;
  std::string last_error_;
  // Destroyed in reverse order: the kernel's side first, then the client, then the memory and loops that both
  // use.
  LoopPool loops_;
  BufferPool pool_{kept(kKeptMemory), kept(kKeptLately)};
  const std::shared_ptr<MessageCapture> capture_ = std::make_shared<MessageCapture>();
  std::unique_ptr<client::Filesystem> filesystem_;
  std::unique_ptr<fuse::FuseMount> mount_;
  std::unique_ptr<TraceSessions> traces_;
  std::unique_ptr<ControlServer> server_;
  std::unique_ptr<MetricsServer> metrics_;
  ControlServer::LateReplies watchers_;
};

}  // namespace

int run_mount_daemon(const MountPlan& plan, Reporter& reporter) {
  return MountDaemon(plan, reporter).run();
}

}  // namespace nfsrdma::cli
