// SPDX-License-Identifier: Apache-2.0
// Connecting and recovering: what follows a new connection and a lost session. Loop 0, except bind() of the
// other loops' connections. RFC 8881 sections 2.10.10, 8.4.2, 18.51.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "client/nfs4/session/session.h"
#include "transport/runtime/log.h"
#include "transport/runtime/mutex.h"

namespace nfsrdma::client::nfs4 {
namespace {

using namespace std::chrono_literals;

bool session_gone(const Error& e) {
  return e.layer == Layer::kNfs &&
         (e.recovery == Recovery::kNewSession || e.recovery == Recovery::kRecoverState);
}

// Logs a change of state. Repetitions (`news` is false) go to the debug log.
template <class... Args>
void tell(bool news, fmt::format_string<Args...> format, Args&&... args) {
  log::write(news ? log::Level::kInfo : log::Level::kDebug, format, fmt::make_format_args(args...));
}

}  // namespace

// Uses the lowest slots of a new session, which no other request uses yet.
class Session::Channel final : public RecoveryChannel {
 public:
  explicit Channel(Session& session)
      : session_(session),
        next_(std::min(session.fore_channel_.slots(), kMostRequests), 1),
        busy_(next_.size()),
        told_(session.fore_channel_.slots()),
        usable_(next_.size()) {}

  Task<Result<CompoundReply>> run(Request request) override {
    for (;;) {
      auto taking = take_slot();
      const uint32_t slot = co_await std::move(taking);
      if (broken_) {
        give_back(slot);
        co_return fail({.layer = Layer::kSession,
                        .recovery = Recovery::kReconnect,
                        .errnum = ENOTCONN,
                        .op = "recovery",
                        .cause = "a request of this recovery has no answer"});
      }
      bool retired = false;
      auto running = run_in(slot, request, retired);
      Result<CompoundReply> reply = co_await std::move(running);
      give_back(slot);
      if (!retired) co_return reply;
      co_await session_.stopping_.pause(100ms);
    }
  }

  // The next sequence ID of each slot.
  const std::vector<uint32_t>& next_sequences() const { return next_; }
  // How many slots the server wants us to use.
  uint32_t target_slots() const { return told_; }

 private:
  Task<uint32_t> take_slot() {
    for (;;) {
      MutexLock lock(mutex_);
      const auto free = std::find(busy_.begin(), busy_.begin() + usable_, false);
      if (free != busy_.begin() + usable_) {
        *free = true;
        co_return static_cast<uint32_t>(free - busy_.begin());
      }
      co_await given_back_.wait(lock);
    }
  }

  void give_back(uint32_t slot) {
    MutexLock lock(mutex_);
    busy_[slot] = false;
    given_back_.notify_one();
  }

  SlotTicket ticket(uint32_t slot) const {
    SlotTicket t;
    t.session = session_.registration_.session();
    t.slot = slot;
    t.sequence = next_[slot];
    // Section 18.46.3: "The sa_highest_slotid argument is the highest slot ID for which the client has a
    // request outstanding".
    for (uint32_t i = 0; i < busy_.size(); ++i) {
      if (busy_[i]) t.highest = i;
    }
    return t;
  }

  // Follows a lower target. A higher one can wait until recovery ends.
  void heed(const nfs4::SEQUENCE4resok& ok) {
    const uint32_t highest = std::min(ok.sr_target_highest_slotid, ok.sr_highest_slotid);
    if (highest < told_) told_ = highest + 1;
    usable_ = std::min<std::ptrdiff_t>(usable_, told_);
  }

  // Sets `retired` if the server did not execute the request, because it has meanwhile retired the slot that
  // is named in sa_highest_slotid.
  Task<Result<CompoundReply>> run_in(uint32_t slot, Request request, bool& retired) {
    for (Backoff delay(100ms, 2s);;) {
      CallSize size;
      const SlotTicket mine = ticket(slot);
      Result<CompoundReply> reply =
          co_await session_.sender_.attempt(0, request, mine, Precedence::kHandshake, size);
      if (!reply) {
        // The reply could not be decoded, but the server has executed the request.
        if (reply.error().layer == Layer::kXdr) {
          if (size.transmissions != 0) ++next_[slot];
        } else if (reply.error().layer == Layer::kSecurity && size.transmissions == 0) {
          // This user has no ticket now: the others' state is reclaimed all the same. If no KDC answers,
          // recovery starts over, because nothing is known of any ticket.
          if (reply.error().recovery == Recovery::kRetry) reply.error().recovery = Recovery::kReconnect;
        } else {
          broken_ = true;  // the slot's next sequence ID is not known
        }
        co_return reply;
      }
      if (!reply->sequence()) co_return fail(nfs4::nfs_error(reply->status(), nfs4::op_name(request.op)));
      const nfs4::nfsstat4 sequenced = reply->sequence()->status;
      if (sequenced == nfs4::NFS4_OK) {
        ++next_[slot];
        heed(reply->sequence()->resok4);
      } else if (sequenced == nfs4::NFS4ERR_BAD_HIGH_SLOT && mine.highest >= usable_) {
        retired = !session_.stopping_.raised();
        co_return fail({.layer = Layer::kSession,
                        .recovery = Recovery::kInterrupted,
                        .errnum = EIO,
                        .status = sequenced,
                        .op = "SEQUENCE",
                        .cause = nfs4::name_of(sequenced)});
      } else if (sequenced != nfs4::NFS4ERR_DELAY) {
        // The fresh session is already unusable: recovery starts over.
        co_return fail({.layer = Layer::kSession,
                        .recovery = Recovery::kReconnect,
                        .errnum = EIO,
                        .status = sequenced,
                        .op = "SEQUENCE",
                        .cause = nfs4::name_of(sequenced)});
      }
      if (sequenced == nfs4::NFS4_OK && reply->status() != nfs4::NFS4ERR_DELAY) co_return reply;
      co_await session_.stopping_.pause(delay.next());
      if (session_.stopping_.raised())
        co_return fail({.layer = Layer::kSession,
                        .recovery = Recovery::kInterrupted,
                        .errnum = EIO,
                        .op = "recovery",
                        .cause = ""});
    }
  }

  static constexpr uint32_t kMostRequests = 16;

  Session& session_;
  std::vector<uint32_t> next_;
  Mutex mutex_;
  WaitQueue given_back_ NFSRDMA_GUARDED_BY(mutex_);
  // These need no lock: recovery runs on loop 0 only.
  std::vector<bool> busy_;
  bool broken_ = false;    // a request may have been executed and has no answer
  uint32_t told_;          // the lowest number of slots that the server wanted
  std::ptrdiff_t usable_;  // slots below this one may be used; at least 1
};

Task<Result<>> Session::start() {
  NFSRDMA_CO_TRY(co_await connections_.start());
  loops_[0].spawn(renew_lease());
  co_return Result<>{};
}

Task<Result<>> Session::on_connected(unsigned index) {
  flags_.heed_reclaim();
  if (index != 0) {
    const std::optional<uint64_t> generation = co_await readiness_.wait();
    if (!generation)
      co_return fail({.layer = Layer::kSession,
                      .recovery = Recovery::kInterrupted,
                      .errnum = EIO,
                      .op = "connect",
                      .cause = "shutting down"});
    Result<> bound = co_await bind(index);
    if (bound || !session_gone(bound.error())) co_return bound;
    invalidate(*generation, "BIND_CONN_TO_SESSION found no session");
    co_return bound;
  }
  co_await connections_.follow_address();
  auto guard = co_await recovery_mutex_.lock();
  // destroy_all() is done: do not establish a client ID again.
  if (stopping_.raised() && !registration_.exists())
    co_return fail({.layer = Layer::kSession,
                    .recovery = Recovery::kInterrupted,
                    .errnum = EIO,
                    .op = "connect",
                    .cause = "shutting down"});
  if (slots_.is_open()) {
    Result<> bound = co_await bind(0);
    if (bound || !session_gone(bound.error())) co_return bound;
    tell(!throttle_.sessions_end_at_once(), "server {}: the session is gone ({}); recovering", options_.host,
         describe(bound.error()));
    close(slots_.generation());
    co_await stopping_.pause(throttle_.begin());
  }
  co_return co_await recover();
}

bool Session::close(uint64_t generation) {
  if (!slots_.close(generation)) return false;
  readiness_.broken(generation);
  return true;
}

void Session::invalidate(uint64_t generation, const char* why) {
  if (!close(generation)) return;
  tell(!throttle_.sessions_end_at_once(), "server {}: the session is unusable ({}); recovering",
       options_.host, why);
  loops_[0].spawn(recover_live());
}

Task<> Session::recover_live() {
  const Gate::Pass pass = gate_.enter();
  co_await stopping_.pause(throttle_.begin());
  auto guard = co_await recovery_mutex_.lock();
  if (slots_.is_open() || stopping_.raised()) co_return;
  Result<> recovered = co_await recover();
  if (recovered || stopping_.raised()) co_return;
  if (!throttle_.sessions_end_at_once())
    log::warn("server {}: recovery failed: {}; trying again", options_.host, describe(recovered.error()));
  connections_.at(0).reconnect("session recovery failed");  // the handshake of the next connection recovers
}

Task<Result<>> Session::recover() {
  const Duration unrenewed = lease_.unrenewed();
  const auto lease = lease_.period();
  if (registration_.exists()) {
    const Error gone{.layer = Layer::kSession,
                     .recovery = Recovery::kNewSession,
                     .errnum = EIO,
                     .op = "SEQUENCE",
                     .cause = "the session is gone"};
    co_await connections_.fail_pending(gone);
    recoveries_.fetch_add(1, std::memory_order_relaxed);
  }
  NFSRDMA_CO_TRY(co_await make_session());
  const uint64_t generation = ++generation_;
  Channel channel(*this);
  const bool restarted = registration_.owed() != Owed::kNothing && epoch() > 1;
  if (restarted) NFSRDMA_CO_TRY(co_await fetch_lease(channel));
  NFSRDMA_CO_TRY(co_await reclaim(channel));
  readiness_.ready(generation);
  slots_.open(generation, registration_.session(), fore_channel_.slots(), channel.next_sequences(),
              channel.target_slots());
  if (restarted) {
    // The server loses our state by a restart or when the lease expires. If the lease was renewed in time, it
    // was a restart.
    if (unrenewed < lease) {
      tell(!throttle_.sessions_end_at_once(), "server {}: recovered after its restart", options_.host);
    } else {
      tell(!throttle_.sessions_end_at_once(),
           "server {}: recovered; the lease of {} s had run out, it was not renewed for {} s", options_.host,
           lease.count(), std::chrono::duration_cast<std::chrono::seconds>(unrenewed).count());
    }
    loops_[0].spawn(restore_state());
  }
  co_return Result<>{};
}

Task<Result<>> Session::make_session() {
  auto making = registration_.make_session(stopping_);
  auto made = co_await std::move(making);
  if (!made) co_return fail(std::move(made.error()));
  NFSRDMA_CO_TRY(fore_channel_.open(made->csr_fore_chan_attrs));
  back_channel_.store((made->csr_flags & nfs4::CREATE_SESSION4_FLAG_CONN_BACK_CHAN) != 0);
  callbacks_->session_opened(made->csr_sessionid, made->csr_back_chan_attrs);
  sessions_created_.fetch_add(1, std::memory_order_relaxed);
  identity_.set_session(made->csr_sessionid);
  co_return Result<>{};
}

// Section 8.4.2.1: "A server may, upon restart, establish a new value for the lease period." It is fetched
// first, because the rest of recovery may take long.
Task<Result<>> Session::fetch_lease(RecoveryChannel& channel) {
  const nfs4::bitmap4 wanted = nfs4::bitmap4::of({nfs4::FATTR4_LEASE_TIME});
  auto build = [&](CompoundBuilder& b) { b.add(nfs4::PUTROOTFH4args{}).getattr(wanted); };
  const Request request{.op = nfs4::OP_GETATTR, .credential = machine_, .build = build};
  Result<CompoundReply> reply = co_await channel.run(request);
  if (!reply) co_return fail(std::move(reply.error()));
  if (!reply->expect<nfs4::PUTROOTFH4res>()) co_return Result<>{};  // keep the lease known so far
  auto res = reply->take<nfs4::GETATTR4res>();
  if (res && res->resok4.obj_attributes.has(nfs4::FATTR4_LEASE_TIME))
    set_lease(std::chrono::seconds(res->resok4.obj_attributes.fs->lease_time));
  co_return Result<>{};
}

Task<> Session::restore_state() {
  const Gate::Pass pass = gate_.enter();
  co_await keeper_->recovered();
}

Task<Result<>> Session::bind(unsigned index) {
  auto binding = registration_.bind(index);
  Result<std::optional<bool>> bound = co_await std::move(binding);
  if (!bound) co_return fail(std::move(bound.error()));
  if (index == 0 && *bound) back_channel_.store(**bound);
  co_return Result<>{};
}

Task<Result<>> Session::reclaim(RecoveryChannel& channel) {
  if (registration_.owed() == Owed::kNothing) co_return Result<>{};
  if (registration_.owed() == Owed::kLoss) {
    keeper_->lose_all("the server is another one now");
  } else if (epoch() > 1) {
    NFSRDMA_CO_TRY(co_await keeper_->reclaim(channel, epoch()));
  }
  auto build = [](CompoundBuilder& b) { b.add(nfs4::RECLAIM_COMPLETE4args{.rca_one_fs = false}); };
  const Request request{
      .op = nfs4::OP_RECLAIM_COMPLETE, .credential = machine_, .cache_this = true, .build = build};
  Result<CompoundReply> reply = co_await channel.run(request);
  if (!reply) co_return fail(std::move(reply.error()));
  Result<> done = reply->expect<nfs4::RECLAIM_COMPLETE4res>();
  // An earlier recovery that was interrupted may have sent it already.
  if (!done && !done.error().is_status(nfs4::NFS4ERR_COMPLETE_ALREADY)) co_return done;
  registration_.reclaimed();
  co_return Result<>{};
}

}  // namespace nfsrdma::client::nfs4
