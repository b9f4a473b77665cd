// SPDX-License-Identifier: Apache-2.0
// Domain: one RDMA device of one mount or server: its abilities, its protection domain, and the memory that
// is registered with it.
//
// Slabs of the buffer pool (transport/memory/buffer.h, 2 MiB each) are registered at their first use. They
// stay registered until the pool frees them or room is needed: when the system refuses more (RLIMIT_MEMLOCK),
// the idle slab that was unused for longest is deregistered, which is logged once. Other memory is registered
// while its Registration lives. A Domain is destroyed with the last connection that uses it, because
// librdmacm may close a device when no identifier of it is left.
//
// Any loop. A lock is held while a slab is registered (once for each, some 100 microseconds).
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <unordered_map>
#include <vector>

#include "transport/fabric/verbs/open_device.h"
#include "transport/fabric/verbs/options.h"
#include "transport/memory/buffer.h"
#include "transport/runtime/log.h"
#include "transport/runtime/loop.h"
#include "transport/runtime/mutex.h"
#include "xdr/support/result.h"

namespace nfsrdma::fabric::verbs {

class Domain;

// A registration: local memory that work requests may name. The Domain outlives it.
class Registration {
 public:
  Registration() = default;
  Registration(Registration&& o) noexcept
      : domain_(std::exchange(o.domain_, nullptr)), mr_(o.mr_), slab_(o.slab_) {}
  Registration& operator=(Registration&& o) noexcept {
    std::swap(domain_, o.domain_);
    std::swap(mr_, o.mr_);
    std::swap(slab_, o.slab_);
    return *this;
  }
  ~Registration() { reset(); }
  void reset();

  explicit operator bool() const { return domain_ != nullptr; }
  ibv_mr* mr() const { return mr_; }
  uint32_t lkey() const { return mr_->lkey; }

 private:
  friend class Domain;
  Registration(Domain* domain, ibv_mr* mr, const std::byte* slab) : domain_(domain), mr_(mr), slab_(slab) {}
  Domain* domain_ = nullptr;
  ibv_mr* mr_ = nullptr;
  const std::byte* slab_ = nullptr;  // null: a registration of its own
};

struct Abilities {
  bool windows = false;               // type 2 memory windows, bound and invalidated by work requests
  bool send_with_invalidate = false;  // claimed by the device; see Domains::sends_with_invalidate()
  bool iwarp = false;
  unsigned work_requests = 0;     // of one queue
  unsigned completions = 0;       // of one completion queue
  unsigned reads_answered = 0;    // maximum of the peer's outstanding RDMA Reads
  unsigned reads_initiated = 0;   // maximum of our outstanding RDMA Reads
  size_t registration_bytes = 0;  // of one registration
};

class Domain final : private SlabWatcher {
 public:
  static Result<std::shared_ptr<Domain>> open(std::shared_ptr<OpenDevice> device, BufferPool& pool);
  ~Domain();
  Domain(const Domain&) = delete;
  Domain& operator=(const Domain&) = delete;

  const std::string& name() const { return name_; }
  const Abilities& abilities() const { return abilities_; }
  ibv_pd* pd() const { return pd_; }
  ibv_context* context() const { return device_->context(); }
  BufferPool& pool() const { return pool_; }

  // Registers memory for Sends, Receives, the local sides of Writes and Reads, and below windows. Errors:
  // ENOMEM...
  Result<Registration> share(ConstBytes memory);
  // Registers memory for one use, with its own rights (IBV_ACCESS_*).
  Result<Registration> own(ConstBytes memory, int access);
  // Checks that memory for bulk data can be registered beside the messages of the existing connections. This
  // succeeds if a slab is registered already (calls wait until it is free), or if one can be registered now;
  // that one is deregistered at once. Errors: as share().
  Result<> check_room();
  bool in_pool(ConstBytes memory) const { return pool_.slab_of(memory) != nullptr; }

  size_t slabs_registered() const;
  // See verbs.h.
  uint64_t registrable_bytes() const { return registrable_.load(std::memory_order_relaxed); }

  // For a failed device (IBV_EVENT_DEVICE_FATAL): lose() calls each `lost`, on its loop.
  using Lost = std::function<void()>;
  void on_lost(const void* who, Loop& loop, Lost lost);
  void forget(const void* who);
  void lose();

 private:
  friend class Registration;
  struct SlabEntry {
    ibv_mr* mr = nullptr;
    unsigned uses = 0;
    uint64_t used_last = 0;
  };
  struct Listener {
    const void* who;
    Loop* loop;
    Lost lost;
  };

  Domain(std::shared_ptr<OpenDevice> device, ibv_pd* pd, BufferPool& pool, const ibv_device_attr& attributes);
  void on_slab_going(const std::byte* slab) override;
  Result<Registration> share_slab(const std::byte* slab);
  ibv_mr* register_locked(const void* at, size_t bytes, int access) NFSRDMA_REQUIRES(mutex_);
  bool drop_idle_locked() NFSRDMA_REQUIRES(mutex_);
  void note_limit_locked(size_t slabs) NFSRDMA_REQUIRES(mutex_);
  void release(ibv_mr* mr, const std::byte* slab);
  Error refused(int errnum, size_t bytes) const;

  const std::shared_ptr<OpenDevice> device_;
  ibv_pd* const pd_;
  BufferPool& pool_;
  const std::string name_;
  const Abilities abilities_;
  const int shared_access_;

  mutable Mutex mutex_;
  std::unordered_map<const std::byte*, SlabEntry> slabs_ NFSRDMA_GUARDED_BY(mutex_);
  uint64_t uses_ NFSRDMA_GUARDED_BY(mutex_) = 0;
  bool warned_ NFSRDMA_GUARDED_BY(mutex_) = false;
  std::atomic<uint64_t> registrable_{UINT64_MAX};
  std::vector<Listener> listeners_ NFSRDMA_GUARDED_BY(mutex_);
};

// True if memory is exposed through windows on this device.
inline bool uses_windows(const Options& options, const Domain& domain) {
  return options.windows && domain.abilities().windows;
}

// The domains of one mount or server. Its loops share them, so that nothing is registered twice.
class Domains {
 public:
  explicit Domains(BufferPool& pool) : pool_(pool) {}
  std::shared_ptr<OpenDevice> device(ibv_context* context);
  Result<std::shared_ptr<Domain>> of(ibv_context* context);
  uint64_t registrable_bytes();
  // Whether a device can Send With Invalidate. Its claim counts until it has refused such a Send: the
  // user-space part of its driver may not know the request (bnxt_re).
  bool sends_with_invalidate(const Domain& domain);
  void note_invalidate_refused(const Domain& domain);
  // Limits log lines about failures of their connections.
  log::Throttle& failures() { return failures_; }

 private:
  std::shared_ptr<OpenDevice> device_locked(ibv_context* context) NFSRDMA_REQUIRES(mutex_);

  BufferPool& pool_;
  log::Throttle failures_;
  Mutex mutex_{LockRank::kTable};
  std::unordered_map<ibv_context*, std::weak_ptr<OpenDevice>> devices_ NFSRDMA_GUARDED_BY(mutex_);
  std::unordered_map<ibv_context*, std::weak_ptr<Domain>> domains_ NFSRDMA_GUARDED_BY(mutex_);
  // Names of devices; they outlive the domains.
  std::set<std::string> invalidate_refused_ NFSRDMA_GUARDED_BY(mutex_);
};

}  // namespace nfsrdma::fabric::verbs
