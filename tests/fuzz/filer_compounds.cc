// SPDX-License-Identifier: Apache-2.0
// Fuzz entry: the filer with two clients that send anything on two connections, while time passes, the server
// restarts and delegations are recalled.
//
// Checked: a message gets at most one reply. The reply to a COMPOUND decodes, has at most as many results as
// operations, and its status is that of the last result, the only one that may be an error. The tables'
// counters match their content and stay within the limits, and so does the memory of an export.
//
// Input: steps. One byte selects the action; its arguments follow (see Filer::step()).

#include <spdlog/spdlog.h>

#include <array>

#include "filer/dispatcher.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/input.h"
#include "xdr/rpc.h"

namespace {

using namespace nfsrdma;         // NOLINT
using namespace nfsrdma::filer;  // NOLINT
using namespace nfs4;            // NOLINT: operations and statuses
using fuzz::Input;
using fuzz::require;

constexpr size_t kMaxSteps = 64;
constexpr state::StateTable::Limits kLimits{.max_states = 12, .max_locks = 12};
constexpr uint64_t kDataBytes = 1u << 16;

class Wire final : public links::Link {
 public:
  explicit Wire(links::LinkId id) : id_(id) {}
  links::LinkId id() const override { return id_; }
  using links::Link::send;
  void send(ByteVector message, links::BulkPlaces items) override {
    for (const rpc::BulkPlace& item : items)
      require(item.offset <= message.size() && item.length <= message.size() - item.offset,
              "items are within");
    sent.push_back(std::move(message));
  }
  void send_raw(ByteVector) override {}
  void close(bool) override { closed = true; }
  void pause_reading(bool) override {}

  std::vector<ByteVector> sent;
  bool closed = false;

 private:
  const links::LinkId id_;
};

// What a client has learnt from replies.
struct Peer {
  std::shared_ptr<Wire> wire;
  std::string name;
  clientid4 id = 0;
  sequenceid4 create_sequence = 0;
  sessionid4 session;
  std::array<uint32_t, 4> sequences{};
  std::vector<stateid4> stateids;
};

nfs::Options options_of() {
  nfs::Options o;
  o.limits = {.max_slots = 4, .max_clients = 4, .max_sessions = 6};
  o.state_limits = kLimits;
  o.journal = false;
  o.manual_clock = true;
  return o;
}

class Filer {
 public:
  Filer(const uint8_t* data, size_t size)
      : input_(data, size),
        core_(options_of(), {.find_link = [this](links::LinkId id) { return find(id); },
                             .after = [this](auto, auto fn) { later_.push_back(std::move(fn)); },
                             .notify = [] {}}),
        dispatcher_(core_, faults_,
                    {.after = [this](auto, auto fn) { unlocked_later_.push_back(std::move(fn)); },
                     .restart = [](bool) {},
                     .target_slots = [](uint32_t) {}}) {
    fs().bytes_total = kDataBytes;
    core_.tree.walk("/export")->mode = 0777;
    core_.switches.delegations = nfs::Delegations::kReadOrWrite;
    for (size_t i = 0; i < peers_.size(); ++i) {
      peers_[i].name = i == 0 ? "one" : "two";
      connect(peers_[i]);
      establish(peers_[i]);
    }
  }

  void run() {
    for (size_t n = 0; n < kMaxSteps && !input_.empty(); ++n) {
      step();
      check();
    }
  }

 private:
  tree::FileSystem& fs() { return *core_.tree.walk("/export")->fs; }
  links::LinkPtr find(links::LinkId id) {
    for (const Peer& p : peers_) {
      if (p.wire != nullptr && p.wire->id() == id) return p.wire;
    }
    return nullptr;
  }

  void step() {
    const uint8_t control = input_.byte();
    Peer& p = peers_[control >> 3 & 1];
    switch (control & 7) {
      case 0: {
        // Any bytes.
        const ConstBytes bytes = input_.bytes(input_.byte());
        dispatcher_.received(p.wire, {bytes.begin(), bytes.end()});
        break;
      }
      case 1: pass(std::chrono::seconds(input_.byte())); break;
      case 2: change(input_.byte()); break;
      case 3: answer_callbacks(p, input_.byte()); break;
      case 4:
        connect(p);
        if ((control & 16) != 0) establish(p);
        break;
      case 5: timers(); break;
      default: call(p);
    }
    learn_nothing_late();
  }

  void connect(Peer& p) {
    if (p.wire != nullptr) dispatcher_.closed(p.wire->id());
    p.wire = std::make_shared<Wire>(next_link_++);
    dispatcher_.accepted(p.wire);
  }

  void pass(std::chrono::seconds time) {
    const std::lock_guard lock(core_.mutex);
    core_.clock.advance(time);
    core_.tick();
  }

  void timers() {
    for (const auto& fn : std::exchange(unlocked_later_, {})) fn();
    const std::lock_guard lock(core_.mutex);
    for (const auto& fn : std::exchange(later_, {})) fn();
  }

  void change(uint8_t what) {
    const std::lock_guard lock(core_.mutex);
    switch (what & 7) {
      case 0:
        for (const Peer& p : peers_) core_.clients.link_gone(p.wire->id());
        core_.restart((what & 8) != 0);
        break;
      case 1: core_.recall_delegations(); break;
      case 2: core_.revoke_delegations(); break;
      case 3: core_.switches.expiry = static_cast<nfs::Expiry>(what / 8 % 3); break;
      case 4: core_.switches.notify_locks = (what & 8) != 0; break;
      case 5: core_.switches.verify_reclaims = (what & 8) != 0; break;
      case 6: core_.switches.keep_sessions_on_restart = (what & 8) != 0; break;
      default: core_.switches.delegations = static_cast<nfs::Delegations>(what / 8 % 3);
    }
  }

  // --- calls ---

  ByteVector encode(const Peer& p, ConstBytes arguments) {
    const ByteVector credential =
        rpc::encode_authsys({.stamp = 0, .machinename = p.name, .uid = 0, .gid = 0, .gids = {}});
    rpc::call_header header;
    header.xid = rpc::Xid{++xid_};
    header.prog = NFS4_PROGRAM;
    header.vers = NFS_V4;
    header.proc = NFSPROC4_COMPOUND;
    header.cred = {rpc::AUTH_SYS, credential};
    ByteVector message;
    xdr::Encoder x(message);
    require(x(header) && x.raw(arguments), "a call can be encoded");
    return message;
  }

  // Sends a COMPOUND and returns its reply; nullopt if it is held back.
  std::optional<COMPOUND4res> send(Peer& p, const std::vector<nfs_argop4>& operations, ConstBytes more = {},
                                   uint32_t more_operations = 0) {
    ByteVector arguments;
    xdr::Encoder x(arguments);
    x.opaque({}, kMaxTag) && x(uint32_t{1}) && x(static_cast<uint32_t>(operations.size()) + more_operations);
    for (const nfs_argop4& op : operations) require(x(op), "an operation can be encoded");
    x.raw(more);
    const size_t count = operations.size() + more_operations;
    const size_t before = p.wire->sent.size();
    dispatcher_.received(p.wire, encode(p, arguments));
    std::optional<COMPOUND4res> answer;
    for (size_t i = before; i < p.wire->sent.size(); ++i) {
      const auto prefix = rpc::peek(p.wire->sent[i]);
      require(prefix.has_value(), "what is sent is RPC");
      if (prefix->type != rpc::REPLY || prefix->xid != rpc::Xid{xid_}) continue;
      require(!answer, "one answer");
      answer = read(p.wire->sent[i], count);
    }
    return answer;
  }

  static std::optional<COMPOUND4res> read(const ByteVector& message, size_t operations) {
    xdr::Decoder x{ConstBytes(message)};
    rpc::reply_header header;
    COMPOUND4res res;
    require(x(header), "a reply has a header");
    if (!header.success()) return COMPOUND4res{};
    require(x(res) && x.left() == 0, "results decode");
    require(res.resarray.size() <= operations, "no more results than operations");
    for (size_t i = 0; i < res.resarray.size(); ++i) {
      const bool last = i + 1 == res.resarray.size();
      require(res.resarray[i].status() == NFS4_OK || last, "the first error ends it");
      require(!last || res.resarray[i].status() == res.status, "whose status is the whole's");
    }
    require(res.status != NFS4_OK || res.resarray.size() == operations, "success is of all of it");
    return res;
  }

  void establish(Peer& p) {
    EXCHANGE_ID4args who;
    who.eia_clientowner = {verifier4::of(generation_++ / 8), p.name};
    const auto named = send(p, {{who}});
    if (!named || named->status != NFS4_OK) return;
    const auto& id = std::get<EXCHANGE_ID4res>(named->resarray[0].op).resok4;
    p.id = id.eir_clientid;
    CREATE_SESSION4args create;
    create.csa_clientid = p.id;
    create.csa_sequence = id.eir_sequenceid;
    create.csa_flags = CREATE_SESSION4_FLAG_CONN_BACK_CHAN;
    create.csa_fore_chan_attrs = {0, 1u << 16, 1u << 16, 1u << 12, 32, 4, {}};
    create.csa_back_chan_attrs = {0, 4096, 4096, 4096, 8, 2, {}};
    create.csa_cb_program = 0x40000001;
    create.csa_sec_parms.push_back({});
    const auto made = send(p, {{create}});
    if (!made || made->status != NFS4_OK) return;
    p.session = std::get<CREATE_SESSION4res>(made->resarray[0].op).resok4.csr_sessionid;
    p.sequences = {};
    send(p, {{next(p, 0)}, {RECLAIM_COMPLETE4args{}}});
  }

  static SEQUENCE4args next(Peer& p, uint32_t slot) {
    return {p.session, ++p.sequences[slot], slot, 3, true};
  }

  // SEQUENCE, usually a valid one, then either chosen operations or raw bytes.
  void call(Peer& p) {
    const uint8_t how = input_.byte();
    const uint32_t slot = how & 3;
    if ((how & 4) != 0 && p.sequences[slot] > 0) --p.sequences[slot];  // a retry, or a false retry
    std::vector<nfs_argop4> operations{{next(p, slot)}};
    const unsigned count = how >> 3 & 7;
    for (unsigned i = 0; i < count; ++i) add(p, operations);
    ConstBytes raw;
    if ((how & 64) != 0) raw = input_.bytes(input_.byte());
    const auto answer = send(p, operations, raw, raw.empty() ? 0 : 1 + (how >> 7));
    if (answer) learn(p, *answer);
  }

  std::string name() {
    static constexpr const char* kNames[] = {"a", "b", "c", "d", "", ".", "export", "a/b"};
    return kNames[input_.byte() & 7];
  }
  stateid4 stateid(const Peer& p) {
    const uint8_t which = input_.byte();
    if (which == 255) return kAnonymousStateid;
    if (which == 254) return kCurrentStateid;
    if (p.stateids.empty()) return {which, {}};
    stateid4 id = p.stateids[which % p.stateids.size()];
    if ((which & 64) != 0) id.seqid = 0;
    if (which >= 240) id.seqid += which & 3;
    return id;
  }
  void add_place(std::vector<nfs_argop4>& list) {
    list.push_back({PUTROOTFH4args{}});
    list.push_back({LOOKUP4args{"export"}});
  }

  void add(Peer& p, std::vector<nfs_argop4>& list) {
    const uint8_t b = input_.byte();
    switch (b % 26) {
      case 0: return add_place(list);
      case 1: add_place(list); return list.push_back({LOOKUP4args{name()}});
      case 2: return list.push_back({open_args(p)});
      case 3: add_place(list); return list.push_back({open_args(p)});
      case 4: return list.push_back({CLOSE4args{0, stateid(p)}});
      case 5: return list.push_back({lock_args(p, (b & 128) != 0)});
      case 6: {
        const uint64_t first = input_.byte();
        return list.push_back({LOCKU4args{WRITE_LT, 0, stateid(p), first, input_.byte()}});
      }
      case 7: return list.push_back({LOCKT4args{WRITE_LT, input_.byte(), 9, {0, name()}}});
      case 8: return list.push_back({READ4args{stateid(p), input_.half(), input_.half()}});
      case 9: {
        static const ByteVector kData(UINT16_MAX, std::byte{7});
        WRITE4args args;
        args.stateid = stateid(p);
        args.offset = input_.half();
        args.stable = static_cast<stable_how4>(input_.byte() % 3);
        args.data = ConstBytes(kData).first(input_.half());
        return list.push_back({args});
      }
      case 10: return list.push_back({COMMIT4args{0, 0}});
      case 11:
        return list.push_back({CREATE4args{{NF4LNK, std::string(input_.half(), 'l'), {}}, name(), {}}});
      case 12: return list.push_back({CREATE4args{{NF4DIR, {}, {}}, name(), {}}});
      case 13: return list.push_back({REMOVE4args{name()}});
      case 14: return list.push_back({SAVEFH4args{}});
      case 15: return list.push_back({RESTOREFH4args{}});
      case 16: {
        const std::string from = name();
        return list.push_back({RENAME4args{from, name()}});
      }
      case 17: return list.push_back({LINK4args{name()}});
      case 18: return list.push_back({DELEGRETURN4args{stateid(p)}});
      case 19: return list.push_back({FREE_STATEID4args{stateid(p)}});
      case 20: return list.push_back({TEST_STATEID4args{{stateid(p), stateid(p)}}});
      case 21: return list.push_back({OPEN_DOWNGRADE4args{stateid(p), 0, 1u + input_.byte() % 3, 0}});
      case 22: return list.push_back({RECLAIM_COMPLETE4args{}});
      case 23: return list.push_back({GETATTR4args{bitmap4::of({FATTR4_SIZE, FATTR4_CHANGE})}});
      case 24: {
        SETATTR4args args;
        args.stateid = stateid(p);
        args.obj_attributes.attrmask.set(FATTR4_SIZE);
        args.obj_attributes.size = input_.half();
        return list.push_back({args});
      }
      default: return list.push_back({DESTROY_SESSION4args{peers_[b >> 7].session}});
    }
  }

  OPEN4args open_args(Peer& p) {
    const uint8_t b = input_.byte(), c = input_.byte();
    OPEN4args args;
    args.share_access = 1u + b % 3;
    args.share_deny = b / 4 % 4;
    if ((b & 64) != 0) args.share_access |= OPEN4_SHARE_ACCESS_WANT_ANY_DELEG;
    args.owner = {0, c % 2 == 0 ? "owner" : "another"};
    if ((b & 128) != 0) {
      args.openhow.opentype = OPEN4_CREATE;
      args.openhow.how.mode = static_cast<createmode4>(c / 2 % 4);
      args.openhow.how.createverf = verifier4::of(c / 8 % 2);
      if (c / 16 % 2 == 1) {
        args.openhow.how.createattrs.attrmask.set(FATTR4_SIZE);
        args.openhow.how.createattrs.size = 0;
      }
    }
    args.claim.claim = static_cast<open_claim_type4>(c / 32 % 7);
    args.claim.file = name();
    args.claim.delegate_type = static_cast<open_delegation_type4>(b / 16 % 3);
    args.claim.delegate_stateid = stateid(p);
    return args;
  }

  LOCK4args lock_args(Peer& p, bool known) {
    const uint8_t b = input_.byte();
    LOCK4args args;
    args.locktype = static_cast<nfs_lock_type4>(1 + b % 4);
    args.reclaim = (b & 32) != 0;
    args.offset = input_.byte();
    args.length = (b & 64) != 0 ? NFS4_UINT64_MAX : uint64_t{input_.byte()};
    args.locker.new_lock_owner = !known;
    args.locker.stateid = stateid(p);
    args.locker.lock_owner = {0, (b & 16) != 0 ? "process" : "other"};
    return args;
  }

  static void learn(Peer& p, const COMPOUND4res& res) {
    const auto keep = [&p](const stateid4& id) {
      if (p.stateids.size() < 16)
        p.stateids.push_back(id);
      else
        p.stateids[id.seqid % 16] = id;
    };
    for (const nfs_resop4& r : res.resarray) {
      if (r.status() != NFS4_OK) continue;
      if (const auto* open = std::get_if<OPEN4res>(&r.op)) {
        keep(open->resok4.stateid);
        const open_delegation4& d = open->resok4.delegation;
        if (d.delegation_type == OPEN_DELEGATE_READ || d.delegation_type == OPEN_DELEGATE_WRITE)
          keep(d.stateid);
      }
      if (const auto* lock = std::get_if<LOCK4res>(&r.op)) keep(lock->resok4.lock_stateid);
    }
  }

  // Answers the callbacks that have been sent, with a status or with raw bytes.
  void answer_callbacks(Peer& p, uint8_t how) {
    const std::vector<ByteVector> sent = std::exchange(p.wire->sent, {});
    for (const ByteVector& message : sent) {
      const auto prefix = rpc::peek(message);
      if (!prefix || prefix->type != rpc::CALL) continue;
      rpc::reply_header header;
      header.xid = prefix->xid;
      ByteVector reply;
      xdr::Encoder x(reply);
      require(x(header), "a reply can be encoded");
      const ConstBytes bytes = input_.bytes(how);
      x.raw(bytes);
      dispatcher_.received(p.wire, std::move(reply));
    }
  }
  // Limits the memory of the two wires.
  void learn_nothing_late() {
    for (Peer& p : peers_) {
      if (p.wire->sent.size() > 200) p.wire->sent.clear();
    }
  }

  // --- checks ---

  void check() {
    const std::lock_guard lock(core_.mutex);
    size_t states = 0, locks = 0;
    core_.clients.each_client([&](const state::Client& c) {
      states += c.states.size();
      locks += c.locks;
      uint32_t revoked = 0;
      for (const state::State* s : c.states) {
        require(s->client == &c, "a client's states are its own");
        revoked += !s->live();
        if (s->kind == state::StateKind::kLock && s->live())
          require(s->open != nullptr && s->open->live(), "locks have an open");
        for (const state::State* l : s->locks) require(l->open == s, "and that knows them");
      }
      require(revoked == c.revoked_expired + c.revoked_admin + c.revoked_recall, "revoked ones are counted");
    });
    require(states == core_.states.size() && states <= kLimits.max_states, "states are counted and bounded");
    require(locks == core_.states.lock_count() && locks <= kLimits.max_locks, "locks are, too");
    const tree::FileSystem& kept = fs();
    require(kept.bytes_used <= kDataBytes, "data is bounded");
    require(kept.bytes_around <= (1u << 20) + 65536, "and what is around it");
  }

  Input input_;
  FaultPlan faults_;
  std::vector<std::function<void()>> later_, unlocked_later_;
  std::array<Peer, 2> peers_;
  nfs::Core core_;
  Dispatcher dispatcher_;
  links::LinkId next_link_ = 1;
  uint32_t xid_ = 0;
  uint64_t generation_ = 8;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  spdlog::set_level(spdlog::level::err);
  Filer(data, size).run();
  return 0;
}
