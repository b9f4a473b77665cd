// SPDX-License-Identifier: Apache-2.0
// DelegationService: requests delegations with OPEN and returns them (RFC 8881
// sections 10.4, 18.6, 20.1, 20.2). One per mount; any loop.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <utility>

#include "client/core/kept_data.h"
#include "client/core/mount_parts.h"
#include "client/core/write_back.h"
#include "client/nfs4/delegations/delegations.h"
#include "client/nfs4/protocol_types.h"
#include "client/nfs4/session/session.h"
#include "client/nfs4/state/file_state.h"
#include "client/nfs4/state/node.h"
#include "client/nfs4/state/state_manager.h"
#include "transport/runtime/mutex.h"

namespace nfsrdma::client::nfs4 {

class DelegationService final : public DelegationHolder {
 public:
  DelegationService(const MountParts& parts, NodeTable& nodes, Session& session, Delegations& delegations,
                    StateManager& states, KeptData& kept, WriteBack& write_back)
      : options_(parts.options),
        kernel_(parts.kernel),
        stopping_(parts.stopping),
        nodes_(nodes),
        session_(session),
        delegations_(delegations),
        states_(states),
        kept_(kept),
        write_back_(write_back) {}
  DelegationService(const DelegationService&) = delete;
  DelegationService& operator=(const DelegationService&) = delete;

  bool wants_delegations() const;
  // OPEN4_SHARE_ACCESS_WANT_*.
  uint32_t delegation_wish() const;
  // Takes the delegation from an OPEN's reply. Null if there is none, or if it is not kept: then it goes back
  // to the server. `epoch`: Session::epoch() before the OPEN was sent.
  DelegationRef take_delegation(FileState& file, const nfs4::OPEN4resok& opened,
                                const rpc::CredentialPtr& credential, uint64_t epoch);
  // Call it after the attributes of the OPEN's reply were stored: from now on the delegation guarantees that
  // they are current (AttributeCache::promise()). `order`: of the OPEN. Does nothing if `delegation` is null.
  void begin_promise(const NodeRef& node, const DelegationRef& delegation, uint64_t order);
  // Returns the file's delegation, if it has one. `read_only`: only a read delegation. `purpose`: see
  // DelegationStates::give_back().
  Task<> end_delegation_of(NodeRef node, bool read_only, DelegationStates::Purpose* purpose = nullptr);
  // kAskedFor: as far as we know, another client is about to use the file. kOwnUse: our own next operation
  // needs the return.
  enum class Why : uint8_t { kAskedFor, kOwnUse };
  // Completes when the delegation is returned, by whichever coroutine. `asked`: since when the return is
  // wanted.
  Task<> give_back(DelegationRef delegation, Why why, TimePoint asked,
                   DelegationStates::Purpose* purpose = nullptr);
  void give_back_soon(DelegationRef delegation);
  Task<> give_back_everything();
  void recalled(DelegationRef delegation) override;
  void recalled_unknown(const nfs4::nfs_fh4& fh, const nfs4::stateid4& stateid, uint64_t begun) override;
  std::optional<DelegationHolder::Known> delegated_attributes(const Delegation& delegation) override;

 private:
  // A drop_data() in progress, and the timer of its waiter.
  struct Dropping {
    explicit Dropping(Loop& loop) : timer(loop) {}
    Timer timer;
    bool over = false;
  };
  Task<> drop_data_within(NodeRef node, Duration most);
  Task<> drop_and_tell(NodeRef node, std::shared_ptr<Dropping> drop);
  Task<> give_back_queued();
  Task<> return_unknown(DelegationRef delegation, uint64_t begun);

  const ClientOptions& options_;
  const KernelView& kernel_;
  const std::atomic<bool>& stopping_;
  NodeTable& nodes_;
  Session& session_;
  Delegations& delegations_;
  StateManager& states_;
  KeptData& kept_;
  WriteBack& write_back_;
  Mutex returns_mutex_;
  // With the time since when each return is wanted.
  std::deque<std::pair<DelegationRef, TimePoint>> returns_ NFSRDMA_GUARDED_BY(returns_mutex_);
  unsigned returning_ NFSRDMA_GUARDED_BY(returns_mutex_) = 0;  // running give_back_queued() coroutines
  std::atomic<unsigned> unknown_returning_{0};
};

}  // namespace nfsrdma::client::nfs4
