// SPDX-License-Identifier: Apache-2.0
#include "transport/fabric/verbs/domain.h"

#include <fmt/core.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "transport/fabric/verbs/errors.h"
#include "transport/runtime/log.h"
#include "transport/runtime/mutex.h"

namespace nfsrdma::fabric::verbs {
namespace {

unsigned at_least_zero(int value) {
  return static_cast<unsigned>(std::max(value, 0));
}

// Tries to allocate a window. The device's flags do not suffice: they are the kernel's, and the user-space
// part of a driver may not support windows (bnxt_re).
bool has_windows(ibv_pd* pd) {
  ibv_mw* window = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
  if (window == nullptr) return false;
  ibv_dealloc_mw(window);
  return true;
}

Abilities abilities_of(ibv_pd* pd, const ibv_device_attr& a) {
  Abilities can;
  can.iwarp = pd->context->device->transport_type == IBV_TRANSPORT_IWARP;
  can.send_with_invalidate = (a.device_cap_flags & IBV_DEVICE_MEM_MGT_EXTENSIONS) != 0;
  const bool type2 =
      (a.device_cap_flags & (IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_WINDOW_TYPE_2B)) != 0;
  // IBV_WR_LOCAL_INV is part of these extensions, too.
  can.windows = type2 && can.send_with_invalidate && a.max_mw > 0 && has_windows(pd);
  can.work_requests = at_least_zero(a.max_qp_wr);
  can.completions = at_least_zero(a.max_cqe);
  can.reads_answered = at_least_zero(a.max_qp_rd_atom);
  can.reads_initiated = at_least_zero(a.max_qp_init_rd_atom);
  can.registration_bytes = a.max_mr_size;
  return can;
}

// 0: no limit.
uint64_t locked_memory_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return 0;
  return limit.rlim_cur;
}

constexpr const char* kAdvice =
    "'ulimit -l unlimited' before the mount, or LimitMEMLOCK=infinity in its unit, allows more";

}  // namespace

void Registration::reset() {
  if (Domain* domain = std::exchange(domain_, nullptr)) domain->release(mr_, slab_);
}

Result<std::shared_ptr<Domain>> Domain::open(std::shared_ptr<OpenDevice> device, BufferPool& pool) {
  ibv_context* context = device->context();
  ibv_device_attr attributes{};
  if (const int errnum = ibv_query_device(context, &attributes))
    return fail(rdma_error(errnum, "query device", ibv_get_device_name(context->device)));
  ibv_pd* pd = ibv_alloc_pd(context);
  if (pd == nullptr)
    return fail(rdma_error(errno, "protection domain", ibv_get_device_name(context->device)));
  return std::shared_ptr<Domain>(new Domain(std::move(device), pd, pool, attributes));
}

Domain::Domain(std::shared_ptr<OpenDevice> device, ibv_pd* pd, BufferPool& pool,
               const ibv_device_attr& attributes)
    : device_(std::move(device)),
      pd_(pd),
      pool_(pool),
      name_(ibv_get_device_name(device_->context()->device)),
      abilities_(abilities_of(pd, attributes)),
      shared_access_(IBV_ACCESS_LOCAL_WRITE | (abilities_.windows ? IBV_ACCESS_MW_BIND : 0)) {
  pool_.add_watcher(*this);
}

Domain::~Domain() {
  pool_.remove_watcher(*this);
  for (const auto& [slab, entry] : slabs_) ibv_dereg_mr(entry.mr);
  ibv_dealloc_pd(pd_);
}

void Domain::on_slab_going(const std::byte* slab) {
  MutexLock lock(mutex_);
  const auto at = slabs_.find(slab);
  if (at == slabs_.end()) return;
  ibv_dereg_mr(at->second.mr);
  slabs_.erase(at);
}

Result<Registration> Domain::share(ConstBytes memory) {
  const std::byte* slab = pool_.slab_of(memory);
  return slab != nullptr ? share_slab(slab) : own(memory, shared_access_);
}

Result<Registration> Domain::share_slab(const std::byte* slab) {
  MutexLock lock(mutex_);
  auto at = slabs_.find(slab);
  if (at == slabs_.end()) {
    ibv_mr* mr = register_locked(slab, BufferPool::kSlabBytes, shared_access_);
    if (mr == nullptr) return fail(refused(errno, BufferPool::kSlabBytes));
    at = slabs_.emplace(slab, SlabEntry{mr}).first;
  }
  at->second.used_last = ++uses_;
  ++at->second.uses;
  return Registration(this, at->second.mr, slab);
}

Result<Registration> Domain::own(ConstBytes memory, int access) {
  MutexLock lock(mutex_);
  ibv_mr* mr = register_locked(memory.data(), memory.size(), access);
  if (mr == nullptr) return fail(refused(errno, memory.size()));
  return Registration(this, mr, nullptr);
}

Result<> Domain::check_room() {
  if (slabs_registered() > 0) return {};
  const Slice slab = pool_.slice(BufferPool::kSlabBytes);
  if (!slab.buffer) return fail(rdma_error(ENOMEM, "register", name_));
  Result<Registration> registered = own(slab.bytes, shared_access_);
  if (!registered) return fail(std::move(registered).error());
  return {};
}

// Null: errno has the reason, and no further slab can be deregistered to make room.
ibv_mr* Domain::register_locked(const void* at, size_t bytes, int access) {
  while (true) {
    ibv_mr* mr = ibv_reg_mr(pd_, const_cast<void*>(at), bytes, access);
    if (mr != nullptr) return mr;
    const int errnum = errno;
    const size_t present = slabs_.size();
    if (errnum != ENOMEM || !drop_idle_locked()) {
      errno = errnum;
      return nullptr;
    }
    note_limit_locked(present);
  }
}

bool Domain::drop_idle_locked() {
  auto oldest = slabs_.end();
  for (auto at = slabs_.begin(); at != slabs_.end(); ++at) {
    if (at->second.uses != 0) continue;
    if (oldest == slabs_.end() || at->second.used_last < oldest->second.used_last) oldest = at;
  }
  if (oldest == slabs_.end()) return false;
  ibv_dereg_mr(oldest->second.mr);
  slabs_.erase(oldest);
  return true;
}

void Domain::note_limit_locked(size_t slabs) {
  // Keep the largest count. A smaller one only means that other registrations used part of the limit then.
  const uint64_t known = registrable_.load(std::memory_order_relaxed);
  const uint64_t bytes = slabs * BufferPool::kSlabBytes;
  if (known == UINT64_MAX || known < bytes) registrable_.store(bytes, std::memory_order_relaxed);
  if (std::exchange(warned_, true)) return;
  log::warn(
      "RDMA device {}: no more memory than {} buffers of 2 MiB can stay registered (RLIMIT_MEMLOCK is {} "
      "KiB), going on with these; {}",
      name_, slabs, locked_memory_limit() / 1024, kAdvice);
}

Error Domain::refused(int errnum, size_t bytes) const {
  const uint64_t limit = locked_memory_limit();
  if (limit == 0 || (errnum != ENOMEM && errnum != EPERM))
    return rdma_error(errnum, "register", fmt::format("{}: {} bytes", name_, bytes));
  return rdma_error(
      errnum, "register",
      fmt::format("{}: {} KiB beside what is registered are more than RLIMIT_MEMLOCK, {} KiB; {}", name_,
                  bytes / 1024, limit / 1024, kAdvice));
}

void Domain::release(ibv_mr* mr, const std::byte* slab) {
  if (slab == nullptr) {
    ibv_dereg_mr(mr);
    return;
  }
  MutexLock lock(mutex_);
  const auto at = slabs_.find(slab);
  if (at != slabs_.end()) --at->second.uses;
}

size_t Domain::slabs_registered() const {
  MutexLock lock(mutex_);
  return slabs_.size();
}

void Domain::on_lost(const void* who, Loop& loop, Lost lost) {
  MutexLock lock(mutex_);
  listeners_.push_back({who, &loop, std::move(lost)});
}

void Domain::forget(const void* who) {
  MutexLock lock(mutex_);
  std::erase_if(listeners_, [who](const Listener& l) { return l.who == who; });
}

void Domain::lose() {
  MutexLock lock(mutex_);
  for (const Listener& l : listeners_) l.loop->post(l.lost);
}

std::shared_ptr<OpenDevice> Domains::device_locked(ibv_context* context) {
  std::shared_ptr<OpenDevice> known = devices_[context].lock();
  if (!known) devices_[context] = known = std::make_shared<OpenDevice>(context);
  return known;
}

std::shared_ptr<OpenDevice> Domains::device(ibv_context* context) {
  MutexLock lock(mutex_);
  return device_locked(context);
}

Result<std::shared_ptr<Domain>> Domains::of(ibv_context* context) {
  MutexLock lock(mutex_);
  if (std::shared_ptr<Domain> known = domains_[context].lock()) return known;
  Result<std::shared_ptr<Domain>> opened = Domain::open(device_locked(context), pool_);
  if (opened) domains_[context] = *opened;
  return opened;
}

bool Domains::sends_with_invalidate(const Domain& domain) {
  MutexLock lock(mutex_);
  return domain.abilities().send_with_invalidate && !invalidate_refused_.contains(domain.name());
}

void Domains::note_invalidate_refused(const Domain& domain) {
  MutexLock lock(mutex_);
  if (invalidate_refused_.insert(domain.name()).second)
    log::info("RDMA device {}: its driver has no Send With Invalidate, going on without", domain.name());
}

uint64_t Domains::registrable_bytes() {
  std::vector<std::shared_ptr<Domain>> present;  // so that a domain whose last reference this becomes is
                                                 // destroyed without the lock
  uint64_t least = UINT64_MAX;
  MutexLock lock(mutex_);
  for (const auto& [context, weak] : domains_) {
    if (std::shared_ptr<Domain> domain = weak.lock()) {
      least = std::min(least, domain->registrable_bytes());
      present.push_back(std::move(domain));
    }
  }
  return least;
}

}  // namespace nfsrdma::fabric::verbs
