// SPDX-License-Identifier: Apache-2.0
#include "nfsload.h"

namespace nfsload {
namespace {

class V3;

// The state of a callback; one per slot, so nothing is allocated per request.
struct Slot {
  V3* self;
  unsigned number;
  std::string name;
};

class V3 final : public Protocol {
 public:
  V3(const Options& options, Done done)
      : Protocol(options, std::move(done)), payload_(options.block, 'w'), rpc_(rpc_init_context()) {
    for (unsigned i = 0; i < options.depth; ++i) slots_.push_back({this, i, {}});
    mount();
    connect(rpc_, options_.port, NFS_PROGRAM, NFS_V3);
  }
  ~V3() override { rpc_destroy_context(rpc_); }

  rpc_context* rpc() override { return rpc_; }

  void open_file() override {
    bool ready = false;
    struct Context {
      V3* self;
      bool* ready;
    } context{this, &ready};
    auto store = [](rpc_context*, int status, void* data, void* priv) {
      auto* c = static_cast<Context*>(priv);
      auto* res = static_cast<LOOKUP3res*>(data);
      if (status != RPC_STATUS_SUCCESS || res->status != NFS3_OK) fail("LOOKUP of the file to load failed");
      c->self->file_.assign(res->LOOKUP3res_u.resok.object.data.data_val,
                            res->LOOKUP3res_u.resok.object.data.data_len);
      *c->ready = true;
    };
    if (options_.op == "write") {
      create(0, options_.file);
      run_until(rpc_, [this] { return created_; });
    }
    LOOKUP3args args{};
    args.what.dir = handle(root_);
    args.what.name = const_cast<char*>(options_.file.c_str());
    if (rpc_nfs3_lookup_async(rpc_, store, &args, &context) != 0) fail("cannot queue LOOKUP");
    run_until(rpc_, [&ready] { return ready; });
  }

  void commit() override {
    bool ready = false;
    COMMIT3args args{};
    args.file = handle(file_);
    auto finished = [](rpc_context*, int status, void* data, void* priv) {
      if (status != RPC_STATUS_SUCCESS || static_cast<COMMIT3res*>(data)->status != NFS3_OK)
        fail("COMMIT failed");
      *static_cast<bool*>(priv) = true;
    };
    if (rpc_nfs3_commit_async(rpc_, finished, &args, &ready) != 0) fail("cannot queue COMMIT");
    run_until(rpc_, [&ready] { return ready; });
  }

  void read(unsigned slot, uint64_t offset, uint32_t length) override {
    read_handle(slot, file_, offset, length);
  }

  void write(unsigned slot, uint64_t offset, uint32_t length) override {
    WRITE3args args{};
    args.file = handle(file_);
    args.offset = offset;
    args.count = length;
    args.stable = UNSTABLE;
    args.data.data_len = length;
    args.data.data_val = payload_.data();
    auto written = [](rpc_context*, int status, void* data, void* priv) {
      auto* s = static_cast<Slot*>(priv);
      auto* res = static_cast<WRITE3res*>(data);
      if (status != RPC_STATUS_SUCCESS || res->status != NFS3_OK) fail("WRITE failed");
      s->self->done_(s->number, res->WRITE3res_u.resok.count);
    };
    if (rpc_nfs3_write_async(rpc_, written, &args, &slots_[slot]) != 0) fail("cannot queue WRITE");
  }

  void stat(unsigned slot, const std::string& name) override {
    lookup(slot, name, [](rpc_context*, int status, void* data, void* priv) {
      auto* s = static_cast<Slot*>(priv);
      if (status != RPC_STATUS_SUCCESS || static_cast<LOOKUP3res*>(data)->status != NFS3_OK)
        fail("LOOKUP failed");
      s->self->done_(s->number, 0);
    });
  }

  void create(unsigned slot, const std::string& name) override {
    slots_[slot].name = name;
    CREATE3args args{};
    args.where.dir = handle(root_);
    args.where.name = const_cast<char*>(slots_[slot].name.c_str());
    args.how.mode = UNCHECKED;
    args.how.createhow3_u.obj_attributes.mode.set_it = 1;
    args.how.createhow3_u.obj_attributes.mode.set_mode3_u.mode = 0644;
    auto made = [](rpc_context*, int status, void* data, void* priv) {
      auto* s = static_cast<Slot*>(priv);
      if (status != RPC_STATUS_SUCCESS || static_cast<CREATE3res*>(data)->status != NFS3_OK)
        fail("CREATE failed");
      if (!s->self->created_ && s->self->file_.empty() && s->self->options_.op == "write") {
        s->self->created_ = true;
        return;
      }
      s->self->done_(s->number, 0);
    };
    if (rpc_nfs3_create_async(rpc_, made, &args, &slots_[slot]) != 0) fail("cannot queue CREATE");
  }

  void small_read(unsigned slot, const std::string& name) override {
    lookup(slot, name, [](rpc_context*, int status, void* data, void* priv) {
      auto* s = static_cast<Slot*>(priv);
      auto* res = static_cast<LOOKUP3res*>(data);
      if (status != RPC_STATUS_SUCCESS || res->status != NFS3_OK) fail("LOOKUP failed");
      const auto& object = res->LOOKUP3res_u.resok.object.data;
      s->self->read_handle(s->number, std::string(object.data_val, object.data_len), 0,
                           s->self->options_.block);
    });
  }

 private:
  static nfs_fh3 handle(const std::string& bytes) {
    nfs_fh3 fh{};
    fh.data.data_len = static_cast<u_int>(bytes.size());
    fh.data.data_val = const_cast<char*>(bytes.data());
    return fh;
  }

  void lookup(unsigned slot, const std::string& name, rpc_cb then) {
    slots_[slot].name = name;
    LOOKUP3args args{};
    args.what.dir = handle(root_);
    args.what.name = const_cast<char*>(slots_[slot].name.c_str());
    if (rpc_nfs3_lookup_async(rpc_, then, &args, &slots_[slot]) != 0) fail("cannot queue LOOKUP");
  }

  void read_handle(unsigned slot, const std::string& bytes, uint64_t offset, uint32_t length) {
    READ3args args{};
    args.file = handle(bytes);
    args.offset = offset;
    args.count = length;
    auto got = [](rpc_context*, int status, void* data, void* priv) {
      auto* s = static_cast<Slot*>(priv);
      auto* res = static_cast<READ3res*>(data);
      if (status != RPC_STATUS_SUCCESS || res->status != NFS3_OK) fail("READ failed");
      s->self->done_(s->number, res->READ3res_u.resok.count);
    };
    if (rpc_nfs3_read_async(rpc_, got, &args, &slots_[slot]) != 0) fail("cannot queue READ");
  }

  void connect(rpc_context* rpc, int port, int program, int version) {
    bool up = false;
    auto connected = [](rpc_context* context, int status, void*, void* priv) {
      if (status != RPC_STATUS_SUCCESS) fail(std::string("cannot connect: ") + rpc_get_error(context));
      *static_cast<bool*>(priv) = true;
    };
    if (rpc_connect_port_async(rpc, options_.server.c_str(), port, program, version, connected, &up) != 0) {
      fail(std::string("cannot connect: ") + rpc_get_error(rpc));
    }
    run_until(rpc, [&up] { return up; });
  }

  void mount() {
    rpc_context* mountd = rpc_init_context();
    connect(mountd, options_.mount_port, MOUNT_PROGRAM, MOUNT_V3);
    auto mounted = [](rpc_context*, int status, void* data, void* priv) {
      auto* res = static_cast<mountres3*>(data);
      if (status != RPC_STATUS_SUCCESS || res->fhs_status != MNT3_OK) fail("MNT failed");
      const auto& fh = res->mountres3_u.mountinfo.fhandle;
      static_cast<V3*>(priv)->root_.assign(fh.fhandle3_val, fh.fhandle3_len);
    };
    if (rpc_mount3_mnt_async(mountd, mounted, const_cast<char*>(options_.path.c_str()), this) != 0) {
      fail("cannot queue MNT");
    }
    run_until(mountd, [this] { return !root_.empty(); });
    rpc_destroy_context(mountd);
  }

  std::vector<char> payload_;
  rpc_context* rpc_;
  std::vector<Slot> slots_;
  std::string root_;
  std::string file_;
  bool created_ = false;
};

}  // namespace

std::unique_ptr<Protocol> connect_v3(const Options& options, Done done) {
  return std::make_unique<V3>(options, std::move(done));
}

}  // namespace nfsload
