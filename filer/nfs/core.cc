// SPDX-License-Identifier: Apache-2.0
#include "filer/nfs/core.h"

#include "transport/runtime/log.h"

namespace nfsrdma::filer::nfs {

using namespace nfs4;

namespace {

// How long a client with an expired lease keeps state that conflicts with no other client
// (Expiry::kCourtesy).
constexpr std::chrono::hours kCourtesyTime{24};

bool has_states(const state::Client& client) {
  return !client.states.empty();
}

// The sum over all clients of this client's principal and address.
size_t of_principal(state::ClientTable& clients, const state::Client& client,
                    size_t (*of)(const state::Client&)) {
  size_t sum = 0;
  clients.each_client([&](const state::Client& other) {
    if (other.address == client.address && other.who.same_user(client.who)) sum += of(other);
  });
  return sum;
}

}  // namespace

Core::Core(const Options& given, BackChannel::Environment environment)
    : options(given),
      clock(given.manual_clock),
      tree([this] { return clock.wall(); }),
      states(tree, given.state_limits),
      clients(given.identity, given.limits,
              {.holds_state = [](const state::Client& client) { return !client.states.empty(); },
               .on_client_gone =
                   [this](state::Client& client) {
                     clients_moved = true;
                     for (state::Session* session : client.sessions) back.session_gone(*session);
                     states.remove_client(client);
                     std::erase_if(denied_locks_, [&](const DeniedLock& d) { return d.client == client.id; });
                   }}),
      back(std::move(environment)) {
  for (const std::string& path : options.exports) {
    tree.add_export(path);
    tree.set_flavors(path, flavors_of(path));
  }
  // A value that differs between servers and between two starts of one server.
  boot =
      static_cast<uint64_t>(std::chrono::system_clock::now().time_since_epoch().count()) >> 10 & 0x3fffffff;
  if (boot == 0) boot = 1;
  clients.restart(boot);
  renew_write_verifier();
}

const tree::Flavors& Core::flavors_of(const std::string& path) const {
  const auto own = options.export_flavors.find(path);
  return own == options.export_flavors.end() ? options.flavors : own->second;
}

void Core::restart(bool forget_reclaims) {
  recovery.remember(clients, states, forget_reclaims);
  back.restart();
  states.restart();
  if (switches.keep_sessions_on_restart) {
    clients.restart_persistent();
  } else {
    clients.restart(boot + 1);
  }
  ++boot;
  renew_write_verifier();
  denied_locks_.clear();
  recalled_.clear();
  tree.crash(switches.lose_unstable_on_restart);
  recovery.begin_grace(clock.now(), options.grace);
  if (!recovery.in_grace()) tree.forget_unlinked();
  changed.notify_all();
}

void Core::remember_from(std::unique_ptr<state::StableStorage> storage) {
  storage_ = std::move(storage);
  recovery.remember(storage_->clients());
  recovery.begin_grace(clock.now(), options.grace);
  if (recovery.in_grace())
    log::info("filer: {} clients may reclaim within {} seconds", storage_->clients().size(),
              options.grace.count());
}

void Core::renew_verifier_after_loss(const tree::Node& node) {
  if (node.fs->store->take_loss()) renew_write_verifier();
}

void Core::save_clients() {
  if (!std::exchange(clients_moved, false) || storage_ == nullptr) return;
  clients_moved = !storage_->save(recovery.reclaimers(clients));
}

void Core::expire_client(state::Client& client) {
  clients_moved = true;
  if (switches.expiry == Expiry::kForgetClient) {
    clients.destroy_client(client);
    return;
  }
  if (!client.states.empty()) {
    states.revoke_client(client, state::Revoked::kExpired);
    client.expired_all = true;
  }
}

void Core::tick() {
  apply_switches();
  if (recovery.expire(clock.now())) {
    clients_moved = true;
    tree.forget_unlinked();
  }
  const bool courtesy = switches.expiry == Expiry::kCourtesy;
  const state::LeaseClock::Duration kept = lease() + (courtesy ? kCourtesyTime : std::chrono::hours(0));
  for (state::Client* client : clients.overdue(clock.now(), lease(), kept)) {
    if (courtesy || !client->confirmed) {
      clients.destroy_client(*client);
    } else if (!client->expired_all) {
      expire_client(*client);
    }
  }
  // "was not returned within the lease period after having been recalled" (section 8.5).
  std::erase_if(recalled_, [this](const stateid4& id) {
    state::State* state = states.find(id);
    if (state == nullptr || !state->live()) return true;
    if (clock.now() - state->recalled_at <= lease()) return false;
    revoke(*state, state::Revoked::kRecall);
    return true;
  });
  save_clients();
}

bool Core::take_from_expired(state::State& state) {
  if (switches.expiry != Expiry::kCourtesy || !lease_expired(*state.client)) return false;
  revoke(state, state::Revoked::kExpired);
  return true;
}

void Core::revoke(state::State& state, state::Revoked why) {
  clients_moved = true;  // a client that lost state may not reclaim it
  // Revoking a lock state releases all its ranges; revoking an open revokes its locks too.
  states.revoke(state, why);
}

// All client IDs of one principal at one address may have at most seven eighths of the limit.
bool Core::room_for_state(state::Client& client) {
  const size_t most = options.state_limits.max_states;
  const auto look = [&] {
    const state::StateTable::Room room = states.room_for_state(client);
    if (room != state::StateTable::Room::kEnough || states.size() < most - most / 8) return room;
    const size_t his = of_principal(clients, client, [](const state::Client& c) { return c.states.size(); });
    return his < most - most / 8 ? room : state::StateTable::Room::kClientFull;
  };
  return make_room(client, look, has_states);
}

bool Core::room_for_open(state::Client& client, const tree::FileSystem& fs) {
  const auto look = [&] {
    for (const tree::NodeId node : fs.store->take_pins_moved()) states.count_pins(node);
    return state::StateTable::room_for_descriptors(client, fs.store->crowd());
  };
  return room_for_state(client) &&
         make_room(client, look, [](const state::Client& other) { return other.pinned != 0; });
}

bool Core::room_for_locks(state::Client& client, ptrdiff_t more) {
  if (more <= 0) return true;
  const size_t most = options.state_limits.max_locks;
  const auto look = [&] {
    const state::StateTable::Room room = states.room_for_locks(client, static_cast<size_t>(more));
    if (room != state::StateTable::Room::kEnough || client.locks < most / 16) return room;
    const size_t his = of_principal(clients, client, [](const state::Client& c) { return c.locks; });
    return his < most - most / 8 ? room : state::StateTable::Room::kClientFull;
  };
  return make_room(client, look, has_states);
}

bool Core::make_room(state::Client& client, const std::function<state::StateTable::Room()>& look,
                     bool (*helps)(const state::Client&)) {
  state::StateTable::Room room = look();
  while (room == state::StateTable::Room::kAllFull) {
    state::Client* expired = longest_expired(client, helps);
    if (expired == nullptr) break;
    clients.destroy_client(*expired);
    room = look();
  }
  if (room == state::StateTable::Room::kEnough) return true;
  if (!std::exchange(client.told_full, true)) {
    log::warn(
        "filer: no room for more state of client {:#x} ({} opens, locks and delegations, {} of them of files "
        "that keep a descriptor, {} byte ranges): it is told to wait until some is given up",
        client.id, client.states.size(), client.pinned, client.locks);
  }
  return false;
}

state::Client* Core::longest_expired(const state::Client& except, bool (*helps)(const state::Client&)) {
  state::Client* found = nullptr;
  clients.each_client([&](state::Client& other) {
    if (&other == &except || !helps(other) || !lease_expired(other)) return;
    if (found == nullptr || other.renewed < found->renewed) found = &other;
  });
  return found;
}

tree::ServerFacts Core::facts() const {
  return {static_cast<uint32_t>(options.lease.count()), options.max_read_bytes, options.max_write_bytes,
          switches.shows_acls};
}

uint32_t Core::status_flags(const state::Session& session) {
  state::Client& client = *session.client;
  uint32_t flags = switches.extra_status_flags;
  bool any_path = false;
  for (const state::Session* s : client.sessions) any_path = any_path || back.link_of(*s) != nullptr;
  if (!any_path) flags |= SEQ4_STATUS_CB_PATH_DOWN;
  if (back.link_of(session) == nullptr && (any_path || back.waiting(session)))
    flags |= SEQ4_STATUS_CB_PATH_DOWN_SESSION;
  if (client.revoked_admin > 0) flags |= SEQ4_STATUS_ADMIN_STATE_REVOKED;
  if (client.revoked_recall > 0) flags |= SEQ4_STATUS_RECALLABLE_STATE_REVOKED;
  if (client.revoked_expired == 0) client.expired_all = false;  // FREE_STATEID has acknowledged all of it
  if (client.revoked_expired > 0) {
    flags |=
        client.expired_all ? SEQ4_STATUS_EXPIRED_ALL_STATE_REVOKED : SEQ4_STATUS_EXPIRED_SOME_STATE_REVOKED;
  }
  if (recovery.must_reclaim(client)) flags |= SEQ4_STATUS_RESTART_RECLAIM_NEEDED;
  return flags;
}

void Core::recall(state::State& delegation) {
  if (delegation.recalled) return;
  delegation.recalled = true;
  delegation.recalled_at = clock.now();
  recalled_.push_back(delegation.id);
  send_recall(delegation);
}

std::array<nfstime4, 2> Core::times_of(const verifier4& verifier) {
  return {nfstime4{load_be32(verifier.data.data()), 0}, nfstime4{load_be32(verifier.data.data() + 4), 0}};
}

void Core::created(tree::Node& node, const verifier4& verifier) {
  node.created_by = verifier;
  if (storage_)
    storage_->note_create(as_string_view(tree.handle(node).bytes()), as_string_view(verifier.data));
}

bool Core::was_created_by(const tree::Node& node, const verifier4& verifier) const {
  if (switches.verifier_in_times) return times_of(verifier) == std::array{node.accessed, node.modified};
  if (node.created_by) return node.created_by == verifier;
  return storage_ &&
         storage_->was_created_by(as_string_view(tree.handle(node).bytes()), as_string_view(verifier.data));
}

void Core::recall_delegations() {
  states.each([&](state::State& state) {
    if (state.kind == state::StateKind::kDelegation && state.live()) recall(state);
  });
}

void Core::revoke_delegations() {
  states.each([&](state::State& state) {
    if (state.kind == state::StateKind::kDelegation) revoke(state, state::Revoked::kRecall);
  });
}

void Core::resume_recalls(const state::Client& client) {
  for (const stateid4& id : recalled_) {
    state::State* state = states.find(id);
    if (state == nullptr || !state->live() || state->client != &client) continue;
    const CallbackResult* sent = back.result(state->recall_call);
    if (sent == nullptr || sent->state == CallbackResult::State::kLost) send_recall(*state);
  }
}

void Core::send_recall(state::State& delegation) {
  state::Session* session = nullptr;
  for (state::Session* s : delegation.client->sessions) {
    if (session == nullptr || back.link_of(*s) != nullptr) session = s;
  }
  if (session == nullptr) return;  // it is revoked after a lease period
  Callback callback;
  CB_RECALL4args args;
  args.stateid = state::state_key(delegation.id);  // seqid zero, section 8.2.2
  args.fh = tree.handle(*delegation.node);
  callback.ops.push_back({args});
  callback.repeat_on_delay = true;
  // "Replying does not complete the recall except when the value of the reply's status field is neither
  // NFS4ERR_DELAY nor NFS4_OK" (section 20.2.4). Such an error may be a mistake: the recall may have
  // overtaken the reply that granted the delegation, or reached a client that was just starting. So the
  // recall is repeated as long as the delegation exists; section 10.4.5 gives the client a lease period to
  // return it.
  callback.wanted = [this, id = delegation.id] {
    const state::State* state = states.find(id);
    return state != nullptr && state->live();
  };
  // Until the client has acknowledged the reply that granted the delegation, the recall refers to that
  // request (section 2.10.6.3).
  if (const state::Session* granted = clients.find(delegation.granted_session)) {
    const state::Slot& slot = granted->slots[delegation.granted_slot];
    if (slot.sequence == delegation.granted_sequence) {
      callback.referring.push_back({granted->id, {{delegation.granted_sequence, delegation.granted_slot}}});
    }
  }
  delegation.recall_call = back.call(*session, std::move(callback));
}

void Core::denied(clientid4 client, tree::NodeId node, const std::string& owner) {
  const auto known = [&](const DeniedLock& denied) {
    return denied.client == client && denied.node == node && denied.owner.owner == owner;
  };
  if (std::any_of(denied_locks_.begin(), denied_locks_.end(), known)) return;
  if (denied_locks_.size() >= kMaxDeniedLocks) denied_locks_.erase(denied_locks_.begin());
  denied_locks_.push_back({client, node, {client, owner}});
}

void Core::locks_changed(tree::Node& node) {
  if (!switches.notify_locks) return;
  std::erase_if(denied_locks_, [&](const DeniedLock& denied) {
    if (denied.node != node.id) return false;
    state::Client* client = clients.find(denied.client);
    if (client == nullptr || client->sessions.empty()) return true;
    for (state::Session* session : client->sessions) {
      if (back.link_of(*session) == nullptr) continue;
      Callback callback;
      callback.ops.push_back({CB_NOTIFY_LOCK4args{tree.handle(node), denied.owner}});
      back.call(*session, std::move(callback));
      break;
    }
    return true;
  });
}

}  // namespace nfsrdma::filer::nfs
