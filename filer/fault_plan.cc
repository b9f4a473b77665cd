// SPDX-License-Identifier: Apache-2.0
#include "filer/fault_plan.h"

#include "transport/runtime/mutex.h"
#include "xdr/record_mark.h"

namespace nfsrdma::filer {

namespace fault {

Mangle truncate_to(size_t bytes) {
  return {[bytes](ByteVector& m) { m.resize(std::min(m.size(), bytes)); }};
}

Mangle extend_by(size_t bytes) {
  return {[bytes](ByteVector& m) { m.resize(m.size() + bytes, std::byte{0xa5}); }};
}

Mangle flip(size_t offset, std::byte mask) {
  return {[offset, mask](ByteVector& m) {
    if (offset < m.size()) m[offset] ^= mask;
  }};
}

Mangle wrong_xid() {
  return flip(0, std::byte{0x80});
}

Mangle as_call() {
  return {[](ByteVector& m) {
    if (m.size() >= rpc::kPrefixBytes) store_be32(m.data() + 4, rpc::CALL);
  }};
}

Extra call_flood(unsigned n) {
  Extra extra;
  for (unsigned i = 0; i < n; ++i) {
    ByteVector message;
    xdr::Encoder x(message);
    rpc::call_header header;
    header.xid = rpc::Xid{0xf1000000 + i};
    header.prog = 0x2fffffff;
    header.vers = 1;
    x(header);
    extra.before.push_back(std::move(message));
  }
  return extra;
}

Extra oversized_record(uint32_t claimed_bytes) {
  const auto mark = rpc::encode_record_mark({true, claimed_bytes});
  Extra extra;
  extra.before.emplace_back(mark.begin(), mark.end());
  extra.raw = true;
  return extra;
}

Extra garbage(size_t bytes) {
  ByteVector noise(bytes);
  uint32_t state = 0x2545f491;
  for (std::byte& b : noise) {
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    b = static_cast<std::byte>(state);
  }
  Extra extra;
  extra.before.push_back(std::move(noise));
  return extra;
}

}  // namespace fault

FaultPlan::RuleId FaultPlan::add(Trigger trigger, FaultAction action) {
  MutexLock lock(mutex_);
  const RuleId id = next_++;
  Rule& rule = rules_[id];
  rule.trigger = std::move(trigger);
  rule.action = std::move(action);
  return id;
}

void FaultPlan::remove(RuleId id) {
  MutexLock lock(mutex_);
  if (const auto at = rules_.find(id); at != rules_.end()) at->second.active = false;
}

void FaultPlan::clear() {
  MutexLock lock(mutex_);
  for (auto& [id, rule] : rules_) rule.active = false;
}

unsigned FaultPlan::fired(RuleId id) const {
  MutexLock lock(mutex_);
  const auto at = rules_.find(id);
  return at == rules_.end() ? 0 : at->second.fired;
}

bool FaultPlan::wait_fired(RuleId id, unsigned times, std::chrono::milliseconds timeout) const {
  MutexLock lock(mutex_);
  const auto until = std::chrono::steady_clock::now() + timeout;
  for (;;) {
    const auto at = rules_.find(id);
    if (at != rules_.end() && at->second.fired >= times) return true;
    if (std::chrono::steady_clock::now() >= until) return false;
    changed_.wait_until(lock, until);
  }
}

void FaultPlan::release_locked(Rule& rule) {
  rule.released = true;
  for (auto& go_on : std::exchange(rule.parked, {})) post_(std::move(go_on));
}

void FaultPlan::release(RuleId id) {
  MutexLock lock(mutex_);
  if (const auto at = rules_.find(id); at != rules_.end()) release_locked(at->second);
}

void FaultPlan::release_all() {
  MutexLock lock(mutex_);
  for (auto& [id, rule] : rules_) release_locked(rule);
}

bool FaultPlan::armed() const {
  MutexLock lock(mutex_);
  for (const auto& [id, rule] : rules_) {
    if (rule.active) return true;
  }
  return false;
}

std::vector<FaultPlan::Fired> FaultPlan::match(const FaultEvent& event) {
  MutexLock lock(mutex_);
  std::vector<Fired> fired;
  for (auto& [id, rule] : rules_) {
    const Trigger& t = rule.trigger;
    if (!rule.active || t.kind != event.kind || (t.op && !event.has(*t.op))) continue;
    if ((t.only_link && *t.only_link != event.link) || (t.when && !t.when(event))) continue;
    if (++rule.seen < t.first || (rule.seen - t.first) % t.every != 0) continue;
    fired.push_back({id, rule.action});
    if (++rule.fired >= t.count) rule.active = false;
  }
  if (!fired.empty()) changed_.notify_all();
  return fired;
}

bool FaultPlan::park(RuleId id, std::function<void()> go_on) {
  MutexLock lock(mutex_);
  Rule& rule = rules_[id];
  if (rule.released) return false;
  rule.parked.push_back(std::move(go_on));
  changed_.notify_all();
  return true;
}

}  // namespace nfsrdma::filer
