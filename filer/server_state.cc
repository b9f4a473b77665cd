// SPDX-License-Identifier: Apache-2.0
// Server: clock, clients, state, callbacks and the journal, for tests.

#include <algorithm>

#include "filer/server_impl.h"
#include "transport/runtime/mutex.h"

namespace nfsrdma::filer {

using namespace nfs4;

void Server::end_grace() {
  with_core([](nfs::Core& core) {
    core.recovery.end_grace();
    core.tree.forget_unlinked();
  });
}

bool Server::in_grace() {
  MutexLock lock(impl_->core.mutex);
  impl_->core.tick();
  return impl_->core.recovery.in_grace();
}

void Server::advance_clock(std::chrono::nanoseconds by) {
  with_core([&](nfs::Core& core) {
    core.clock.advance(by);
    core.tick();
  });
}

std::vector<ClientFacts> Server::clients() {
  std::vector<ClientFacts> all;
  with_core([&](nfs::Core& core) {
    core.clients.each_client([&](state::Client& client) {
      if (!client.confirmed) return;
      ClientFacts facts;
      facts.id = client.id;
      facts.owner = client.owner.co_ownerid;
      facts.reclaim_complete = client.reclaim_complete;
      facts.lease_expired = core.lease_expired(client);
      for (const state::Session* session : client.sessions) {
        facts.sessions.push_back(session->id);
        facts.back_channel = facts.back_channel || core.back.link_of(*session) != nullptr;
      }
      core.states.each([&](const state::State& state) {
        if (state.client != &client) return;
        if (!state.live()) {
          ++facts.revoked;
        } else if (state.kind == state::StateKind::kOpen) {
          ++facts.opens;
        } else if (state.kind == state::StateKind::kLock) {
          ++facts.locks;
        } else {
          ++facts.delegations;
        }
      });
      all.push_back(std::move(facts));
    });
  });
  std::sort(all.begin(), all.end(), [](const ClientFacts& a, const ClientFacts& b) { return a.id < b.id; });
  return all;
}

std::vector<StateFacts> Server::states() {
  std::vector<StateFacts> all;
  with_core([&](nfs::Core& core) {
    core.states.each([&](const state::State& s) {
      all.push_back({s.kind, s.id, s.client->id, s.node->id, s.owner, s.access, s.deny, s.write, s.revoked});
    });
  });
  return all;
}

void Server::expire_lease(clientid4 id) {
  with_core([&](nfs::Core& core) {
    state::Client* client = core.clients.find(id);
    if (client == nullptr) return;
    core.clients.set_renewed(*client, core.clock.now() - core.lease() - std::chrono::seconds(1));
    core.tick();
  });
}

bool Server::revoke(const stateid4& id) {
  bool found = false;
  with_core([&](nfs::Core& core) {
    state::State* state = core.states.find(id);
    found = state != nullptr;
    if (found) core.revoke(*state);
  });
  return found;
}

void Server::forget_session(const sessionid4& id) {
  with_core([&](nfs::Core& core) {
    state::Session* session = core.clients.find(id);
    if (session == nullptr) return;
    core.back.session_gone(*session);
    core.clients.destroy_session(*session);
  });
}

void Server::set_target_slots(uint32_t slots) {
  impl_->set_target_slots(slots);
}

void Server::Impl::set_target_slots(uint32_t slots) {
  MutexLock lock(core.mutex);
  core.clients.each_session([&](state::Session& session) {
    const auto most = static_cast<uint32_t>(session.slots.size());
    session.target_highest_slot = std::clamp(slots, 1u, most) - 1;
    ++session.target_turn;
    session.target_seen = false;
  });
  core.changed.notify_all();
}

size_t Server::recall(std::string_view path) {
  size_t recalled = 0;
  with_core([&](nfs::Core& core) {
    const tree::NodePtr node = core.tree.walk(path);
    if (node == nullptr) return;
    for (state::State* state : core.states.of(node->id)) {
      if (state->kind != state::StateKind::kDelegation || !state->live()) continue;
      core.recall(*state);
      ++recalled;
    }
  });
  return recalled;
}

std::optional<nfs::CallbackId> Server::call_back(nfs::Callback callback, std::optional<clientid4> client) {
  std::optional<nfs::CallbackId> id;
  with_core([&](nfs::Core& core) {
    state::Session* chosen = nullptr;
    core.clients.each_session([&](state::Session& session) {
      if (client && session.client->id != *client) return;
      if (chosen == nullptr ||
          (core.back.link_of(*chosen) == nullptr && core.back.link_of(session) != nullptr)) {
        chosen = &session;
      }
    });
    if (chosen != nullptr) id = core.back.call(*chosen, std::move(callback));
  });
  return id;
}

nfs::CallbackResult Server::callback_result(nfs::CallbackId id) {
  MutexLock lock(impl_->core.mutex);
  const nfs::CallbackResult* result = impl_->core.back.result(id);
  return result != nullptr ? *result : nfs::CallbackResult{};
}

nfs::CallbackResult Server::wait_callback(nfs::CallbackId id, std::chrono::milliseconds timeout) {
  wait_until(
      [&](nfs::Core& core) {
        const nfs::CallbackResult* result = core.back.result(id);
        return result == nullptr || result->state == nfs::CallbackResult::State::kAnswered ||
               result->state == nfs::CallbackResult::State::kLost;
      },
      timeout);
  return callback_result(id);
}

nfs::Journal::Count Server::executed(nfs_opnum4 op) {
  MutexLock lock(impl_->core.mutex);
  return impl_->core.journal.count(op);
}

nfs::Journal::Count Server::executed(nfs_opnum4 op, std::string_view path) {
  MutexLock lock(impl_->core.mutex);
  const tree::NodePtr node = impl_->core.tree.walk(path);
  return node != nullptr ? impl_->core.journal.count(op, node->id) : nfs::Journal::Count{};
}

uint64_t Server::replays() {
  MutexLock lock(impl_->core.mutex);
  return impl_->core.journal.replays();
}

std::vector<nfs::ExecutedCompound> Server::journal() {
  MutexLock lock(impl_->core.mutex);
  return {impl_->core.journal.log().begin(), impl_->core.journal.log().end()};
}

void Server::clear_journal() {
  MutexLock lock(impl_->core.mutex);
  impl_->core.journal.clear();
}

bool Server::wait_until(const std::function<bool(nfs::Core&)>& condition, std::chrono::milliseconds timeout) {
  MutexLock lock(impl_->core.mutex);
  const auto until = std::chrono::steady_clock::now() + timeout;
  while (!condition(impl_->core)) {
    if (std::chrono::steady_clock::now() >= until) return false;
    impl_->core.changed.wait_until(lock, until);
  }
  return true;
}

}  // namespace nfsrdma::filer
