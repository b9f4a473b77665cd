// SPDX-License-Identifier: Apache-2.0
// NFSv4.0 over rpc_nfs4_compound_async: SETCLIENTID, one open-owner per slot, OPEN_CONFIRM at the owner's
// first use.
#include <algorithm>
#include <cstring>

#include "nfsload.h"

namespace nfsload {
namespace {

class V4;

// One open-owner and its outstanding operation (RFC 7530 §9.1.3: an owner's OPEN and CLOSE are serial).
struct Owner {
  V4* self = nullptr;
  unsigned number = 0;
  std::string id;
  std::string name;
  uint32_t seqid = 0;
  stateid4 stateid{};
  std::string handle;
  bool creating = false;
  bool opening_file = false;
};

class V4 final : public Protocol {
 public:
  V4(const Options& options, Done done)
      : Protocol(options, std::move(done)), payload_(options.block, 'w'), owners_(options.depth) {
    rpc_ = rpc_init_context();
    for (unsigned i = 0; i < options.depth; ++i) {
      owners_[i].self = this;
      owners_[i].number = i;
      owners_[i].id = "nfsload-" + std::to_string(i);
    }
    connect();
    set_client_id();
    look_up_root();
  }
  ~V4() override { rpc_destroy_context(rpc_); }

  rpc_context* rpc() override { return rpc_; }

  void open_file() override {
    owners_[0].opening_file = true;
    start_open(0, options_.file, options_.op == "write");
    run_until(rpc_, [this] { return file_open_; });
    file_ = owners_[0].handle;
    stateid_ = owners_[0].stateid;
  }

  void commit() override {
    bool ready = false;
    std::vector<nfs_argop4> ops{put(file_), argop(OP_COMMIT)};
    send(
        ops,
        [](rpc_context*, int status, void* data, void* priv) {
          result(status, data, "COMMIT");
          *static_cast<bool*>(priv) = true;
        },
        &ready);
    run_until(rpc_, [&ready] { return ready; });
  }

  void read(unsigned slot, uint64_t offset, uint32_t length) override {
    std::vector<nfs_argop4> ops{put(file_), argop(OP_READ)};
    ops[1].nfs_argop4_u.opread = {stateid_, offset, length};
    send(
        ops,
        [](rpc_context*, int status, void* data, void* priv) {
          auto* owner = static_cast<Owner*>(priv);
          auto* res = result(status, data, "READ");
          owner->self->done_(owner->number, op(res, 1).opread.READ4res_u.resok4.data.data_len);
        },
        &owners_[slot]);
  }

  void write(unsigned slot, uint64_t offset, uint32_t length) override {
    std::vector<nfs_argop4> ops{put(file_), argop(OP_WRITE)};
    auto& args = ops[1].nfs_argop4_u.opwrite;
    args.stateid = stateid_;
    args.offset = offset;
    args.stable = UNSTABLE4;
    args.data.data_len = length;
    args.data.data_val = payload_.data();
    send(
        ops,
        [](rpc_context*, int status, void* data, void* priv) {
          auto* owner = static_cast<Owner*>(priv);
          auto* res = result(status, data, "WRITE");
          owner->self->done_(owner->number, op(res, 1).opwrite.WRITE4res_u.resok4.count);
        },
        &owners_[slot]);
  }

  void stat(unsigned slot, const std::string& name) override {
    owners_[slot].name = name;
    std::vector<nfs_argop4> ops{put(root_), lookup(owners_[slot].name), argop(OP_GETATTR)};
    ops[2].nfs_argop4_u.opgetattr.attr_request = {2, stat_attributes_};
    send(
        ops,
        [](rpc_context*, int status, void* data, void* priv) {
          auto* owner = static_cast<Owner*>(priv);
          result(status, data, "LOOKUP");
          owner->self->done_(owner->number, 0);
        },
        &owners_[slot]);
  }

  void create(unsigned slot, const std::string& name) override { start_open(slot, name, true); }
  void small_read(unsigned slot, const std::string& name) override { start_open(slot, name, false); }

 private:
  static COMPOUND4res* result(int status, void* data, const char* what) {
    auto* res = static_cast<COMPOUND4res*>(data);
    if (status != RPC_STATUS_SUCCESS) fail(std::string(what) + ": RPC failed");
    if (res->status != NFS4_OK) fail(std::string(what) + ": " + nfsstat4_to_str(res->status));
    return res;
  }
  static decltype(nfs_resop4::nfs_resop4_u)& op(COMPOUND4res* res, unsigned index) {
    return res->resarray.resarray_val[index].nfs_resop4_u;
  }
  static nfs_argop4 argop(nfs_opnum4 number) {
    nfs_argop4 op{};
    op.argop = number;
    return op;
  }
  static nfs_argop4 put(const std::string& handle) {
    nfs_argop4 op = argop(OP_PUTFH);
    op.nfs_argop4_u.opputfh.object.nfs_fh4_len = static_cast<u_int>(handle.size());
    op.nfs_argop4_u.opputfh.object.nfs_fh4_val = const_cast<char*>(handle.data());
    return op;
  }
  static nfs_argop4 lookup(const std::string& name) {
    nfs_argop4 op = argop(OP_LOOKUP);
    op.nfs_argop4_u.oplookup.objname = {static_cast<u_int>(name.size()), const_cast<char*>(name.data())};
    return op;
  }

  void send(std::vector<nfs_argop4>& ops, rpc_cb then, void* priv) {
    COMPOUND4args args{};
    args.argarray.argarray_len = static_cast<u_int>(ops.size());
    args.argarray.argarray_val = ops.data();
    if (rpc_nfs4_compound_async(rpc_, then, &args, priv) != 0) {
      fail(std::string("cannot queue COMPOUND: ") + rpc_get_error(rpc_));
    }
  }

  void connect() {
    bool up = false;
    auto connected = [](rpc_context* context, int status, void*, void* priv) {
      if (status != RPC_STATUS_SUCCESS) fail(std::string("cannot connect: ") + rpc_get_error(context));
      *static_cast<bool*>(priv) = true;
    };
    if (rpc_connect_port_async(rpc_, options_.server.c_str(), options_.port, NFS4_PROGRAM, NFS_V4, connected,
                               &up) != 0) {
      fail("cannot connect");
    }
    run_until(rpc_, [&up] { return up; });
  }

  void set_client_id() {
    std::string id = "nfsload " + std::to_string(getpid());
    char netid[] = "tcp";
    char address[] = "0.0.0.0.0.0";
    std::vector<nfs_argop4> ops{argop(OP_SETCLIENTID)};
    auto& args = ops[0].nfs_argop4_u.opsetclientid;
    std::memcpy(args.client.verifier, &options_.seed,
                std::min(sizeof(args.client.verifier), sizeof(options_.seed)));
    args.client.id.id_len = static_cast<u_int>(id.size());
    args.client.id.id_val = id.data();
    args.callback.cb_program = 0x40000000;
    args.callback.cb_location.r_netid = netid;
    args.callback.cb_location.r_addr = address;
    struct Context {
      V4* self;
      verifier4 confirm;
      bool ready;
    } context{this, {}, false};
    send(
        ops,
        [](rpc_context*, int status, void* data, void* priv) {
          auto* c = static_cast<Context*>(priv);
          auto& res = op(result(status, data, "SETCLIENTID"), 0).opsetclientid.SETCLIENTID4res_u.resok4;
          c->self->client_id_ = res.clientid;
          std::memcpy(c->confirm, res.setclientid_confirm, sizeof(c->confirm));
          c->ready = true;
        },
        &context);
    run_until(rpc_, [&context] { return context.ready; });
    context.ready = false;
    std::vector<nfs_argop4> confirm{argop(OP_SETCLIENTID_CONFIRM)};
    confirm[0].nfs_argop4_u.opsetclientid_confirm.clientid = client_id_;
    std::memcpy(confirm[0].nfs_argop4_u.opsetclientid_confirm.setclientid_confirm, context.confirm,
                sizeof(verifier4));
    send(
        confirm,
        [](rpc_context*, int status, void* data, void* priv) {
          result(status, data, "SETCLIENTID_CONFIRM");
          static_cast<Context*>(priv)->ready = true;
        },
        &context);
    run_until(rpc_, [&context] { return context.ready; });
  }

  void look_up_root() {
    std::vector<std::string> parts;
    for (size_t at = 0; at < options_.path.size();) {
      const size_t end = std::min(options_.path.find('/', at), options_.path.size());
      if (end > at) parts.push_back(options_.path.substr(at, end - at));
      at = end + 1;
    }
    std::vector<nfs_argop4> ops{argop(OP_PUTROOTFH)};
    for (const auto& part : parts) ops.push_back(lookup(part));
    ops.push_back(argop(OP_GETFH));
    send(
        ops,
        [](rpc_context*, int status, void* data, void* priv) {
          auto* res = result(status, data, "LOOKUP of the export");
          const auto& fh = op(res, res->resarray.resarray_len - 1).opgetfh.GETFH4res_u.resok4.object;
          static_cast<V4*>(priv)->root_.assign(fh.nfs_fh4_val, fh.nfs_fh4_len);
        },
        this);
    run_until(rpc_, [this] { return !root_.empty(); });
  }

  void start_open(unsigned slot, const std::string& name, bool create) {
    Owner& owner = owners_[slot];
    owner.name = name;
    owner.creating = create;
    std::vector<nfs_argop4> ops{put(root_), argop(OP_OPEN), argop(OP_GETFH)};
    auto& args = ops[1].nfs_argop4_u.opopen;
    args.seqid = owner.seqid++;
    args.share_access = create ? OPEN4_SHARE_ACCESS_BOTH : OPEN4_SHARE_ACCESS_READ;
    args.owner.clientid = client_id_;
    args.owner.owner.owner_len = static_cast<u_int>(owner.id.size());
    args.owner.owner.owner_val = owner.id.data();
    if (create) {
      args.openhow.opentype = OPEN4_CREATE;
      args.openhow.openflag4_u.how.mode = UNCHECKED4;
      auto& attributes = args.openhow.openflag4_u.how.createhow4_u.createattrs;
      attributes.attrmask = {2, mode_attribute_};
      attributes.attr_vals = {4, mode_value_};
    }
    args.claim.claim = CLAIM_NULL;
    args.claim.open_claim4_u.file = {static_cast<u_int>(owner.name.size()), owner.name.data()};
    send(
        ops, [](rpc_context*, int status, void* data, void* priv) { opened(status, data, priv); }, &owner);
  }

  static void opened(int status, void* data, void* priv) {
    auto* owner = static_cast<Owner*>(priv);
    auto* res = result(status, data, "OPEN");
    const auto& ok = op(res, 1).opopen.OPEN4res_u.resok4;
    const auto& fh = op(res, 2).opgetfh.GETFH4res_u.resok4.object;
    owner->stateid = ok.stateid;
    owner->handle.assign(fh.nfs_fh4_val, fh.nfs_fh4_len);
    if (!(ok.rflags & OPEN4_RESULT_CONFIRM)) return owner->self->use(*owner);
    std::vector<nfs_argop4> ops{put(owner->handle), argop(OP_OPEN_CONFIRM)};
    ops[1].nfs_argop4_u.opopen_confirm = {owner->stateid, owner->seqid++};
    owner->self->send(
        ops,
        [](rpc_context*, int confirm_status, void* confirm_data, void* confirm_priv) {
          auto* confirmed = static_cast<Owner*>(confirm_priv);
          auto* confirm_res = result(confirm_status, confirm_data, "OPEN_CONFIRM");
          confirmed->stateid = op(confirm_res, 1).opopen_confirm.OPEN_CONFIRM4res_u.resok4.open_stateid;
          confirmed->self->use(*confirmed);
        },
        owner);
  }

  // The file is open: closes it, after reading its first block if the load asks for that.
  void use(Owner& owner) {
    if (owner.opening_file) {
      owner.opening_file = false;
      file_open_ = true;
      return;
    }
    std::vector<nfs_argop4> ops{put(owner.handle)};
    if (!owner.creating) {
      ops.push_back(argop(OP_READ));
      ops[1].nfs_argop4_u.opread = {owner.stateid, 0, options_.block};
    }
    ops.push_back(argop(OP_CLOSE));
    ops.back().nfs_argop4_u.opclose = {owner.seqid++, owner.stateid};
    send(
        ops,
        [](rpc_context*, int status, void* data, void* priv) {
          auto* closed = static_cast<Owner*>(priv);
          auto* res = result(status, data, "CLOSE");
          const uint64_t bytes = closed->creating ? 0 : op(res, 1).opread.READ4res_u.resok4.data.data_len;
          closed->self->done_(closed->number, bytes);
        },
        &owner);
  }

  std::vector<char> payload_;
  std::vector<Owner> owners_;
  rpc_context* rpc_ = nullptr;
  uint64_t client_id_ = 0;
  std::string root_;
  std::string file_;
  stateid4 stateid_{};
  bool file_open_ = false;
  // type, change, size, fsid, fileid | mode, numlinks, owner, owner_group, rawdev, space_used, times: the
  // attributes that stat(2) needs.
  uint32_t stat_attributes_[2] = {0x0010011a, 0x0030a23a};
  uint32_t mode_attribute_[2] = {0, 2};
  char mode_value_[4] = {0, 0, 1, static_cast<char>(0xa4)};  // 0644
};

}  // namespace

std::unique_ptr<Protocol> connect_v4(const Options& options, Done done) {
  return std::make_unique<V4>(options, std::move(done));
}

}  // namespace nfsload
