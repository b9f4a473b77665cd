// SPDX-License-Identifier: Apache-2.0
// Encodes COMPOUND requests and decodes their replies (RFC 8881 sections 2.3, 16.2).
//
// CompoundBuilder writes one RPC call message: RPC header, COMPOUND header, a SEQUENCE whose fields are
// filled in when the slot is known, and the operations. Each operation is encoded from its argument struct
// directly into the message. Bulk items (WRITE data) are not copied. CompoundReply owns the reply and returns
// the results in order.
//
// Each belongs to one coroutine. Errors: a result with a status other than NFS4_OK is an Error of Layer::kNfs
// with that status. A reply that cannot be decoded is Layer::kXdr, kPermanent, EIO, and is logged with its
// XID.
#pragma once

#include <cerrno>
#include <cstdint>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "client/nfs4/protocol_types.h"
#include "client/nfs4/session/reply_bounds.h"
#include "client/nfs4/session/slot_table.h"
#include "transport/rpc/call_security.h"
#include "transport/rpc/credential.h"
#include "transport/rpc/rpc_transport.h"
#include "transport/runtime/task.h"
#include "transport/runtime/trace.h"
#include "xdr/nfs4/compound.h"

namespace nfsrdma::client::nfs4 {

// The names of directory entries in an operation's arguments, for the operation log.
template <class Args>
std::string names_in(const Args& args) {
  std::string names;
  const auto add = [&names](const std::string& name) {
    names += (names.empty() ? "\"" : " \"") + name + '"';
  };
  if constexpr (requires { args.objname.size(); }) add(args.objname);
  if constexpr (requires { args.oldname.size(); }) add(args.oldname);
  if constexpr (requires { args.newname.size(); }) add(args.newname);
  if constexpr (requires { args.target.size(); }) add(args.target);
  if constexpr (requires { args.claim.file.size(); }) {
    if (!args.claim.file.empty()) add(args.claim.file);
  }
  return names.empty() ? names : "(" + names + ")";
}

class CompoundBuilder {
 public:
  // `op`: what the COMPOUND is for; a string with static lifetime. `sequence`: start with SEQUENCE. False for
  // EXCHANGE_ID, CREATE_SESSION, BIND_CONN_TO_SESSION and DESTROY_*, which come alone (RFC 8881 section
  // 2.10.2.1). `security` (RPCSEC_GSS) replaces the credential; null: AUTH_SYS.
  CompoundBuilder(const rpc::Credential& credential, const char* op, bool sequence = true,
                  const std::shared_ptr<rpc::CallSecurity>& security = nullptr);

  template <class Args>
  CompoundBuilder& add(const Args& args) {
    nfs4::encode_op(encoder_, args);
    count(args);
    return *this;
  }
  CompoundBuilder& putfh(const nfs4::nfs_fh4& fh) { return add(nfs4::PUTFH4args{fh}); }
  CompoundBuilder& getattr(const nfs4::bitmap4& mask) { return add(nfs4::GETATTR4args{mask}); }

  // Makes place() return the position of `op` in the COMPOUND, counted from 1; 0 if `op` is absent.
  void watch(nfs4::nfs_opnum4 op) { watched_ = op; }
  uint32_t place() const { return place_; }

  // `slice` stays in memory until the call ends.
  void keep(Slice slice) { call_.keep.push_back(std::move(slice)); }
  // For SEQUENCE, PUTFH, READ, and at most one more operation: the data goes to `destination` or to one of
  // `pipes`.
  void expect_read(Slice destination, PipePool* pipes = nullptr);
  // For SEQUENCE, PUTFH, OPEN, ACCESS, GETATTR, READ, and one more operation: the data goes to `destination`.
  void expect_read_with_open(Slice destination);

  // The request must not be sent any more. Its sender gets `error`.
  void refuse(Error error) { refused_ = std::move(error); }
  const std::optional<Error>& refused() const { return refused_; }
  bool ok() const { return encoder_.ok(); }
  // The names of the operations, for the operation log; empty while that is off.
  std::string take_trace() { return std::move(trace_); }
  // Returns the message with `ticket` in its SEQUENCE and leaves the builder empty.
  rpc::Call finish(const SlotTicket* ticket, bool cache_this);

 private:
  // Counts an operation that was encoded with these arguments.
  template <class Args>
  void count(const Args& args) {
    call_.max_reply_bytes += max_result_bytes(args);
    ++operations_;
    if (tracing_) [[unlikely]]
      note(nfs4::op_name(nfs4::op_of<Args>), names_in(args));
    if (nfs4::op_of<Args> == watched_ && place_ == 0) place_ = operations_;
  }
  void note(const char* operation, const std::string& names);

  rpc::Call call_;
  xdr::Encoder encoder_;
  std::optional<xdr::Encoder::Batch> batch_;  // until finish()
  size_t count_offset_ = 0;                   // of numops
  size_t sequence_offset_ = 0;                // of SEQUENCE4args
  size_t verifier_bytes_ = 0;                 // of the reply, beyond those of AUTH_NONE
  uint32_t operations_ = 0;
  nfs4::nfs_opnum4 watched_ = nfs4::OP_ILLEGAL;
  uint32_t place_ = 0;
  std::optional<Error> refused_;
  const bool tracing_ = log::tracing();
  std::string trace_;
};

class CompoundReply {
 public:
  // `sink`: as given to expect_read(); else empty.
  static Result<CompoundReply> parse(rpc::Reply reply, const Slice& sink, const char* op, bool sequence);

  nfs4::nfsstat4 status() const { return parts_->status; }
  bool ok() const { return status() == nfs4::NFS4_OK; }
  // The number of executed operations, with SEQUENCE and the one that failed.
  uint32_t results() const { return parts_->results; }
  // Empty if the server rejected the COMPOUND as a whole.
  const std::optional<nfs4::SEQUENCE4res>& sequence() const { return parts_->sequence; }

  // Decodes the next result, which must be of type Res. Its status must be NFS4_OK. PUTFH's
  // NFS4ERR_SERVERFAULT counts as a stale filehandle.
  template <class Res>
  Result<Res> take() {
    auto res = take_any<Res>();
    if (!res || res->status == nfs4::NFS4_OK) return res;
    Error error = nfs4::nfs_error(res->status, nfs4::op_name(nfs4::op_of<Res>));
    // nfs-ganesha 6.5 answers so, instead of NFS4ERR_STALE, while the file is being removed.
    if (std::is_same_v<Res, nfs4::PUTFH4res> && res->status == nfs4::NFS4ERR_SERVERFAULT)
      error.errnum = ESTALE;
    return fail(std::move(error));
  }
  template <class Res>
  Result<> expect() {
    auto res = take<Res>();
    if (!res) return fail(std::move(res.error()));
    return {};
  }
  // As take(), but accepts any status.
  template <class Res>
  Result<Res> take_any() {
    if (parts_->left == 0) return fail(exhausted(nfs4::op_name(nfs4::op_of<Res>)));
    --parts_->left;
    Res res;
    if (!nfs4::decode_res(parts_->decoder, res)) return fail(malformed(nfs4::op_name(nfs4::op_of<Res>)));
    return res;
  }
  // READ's data was received into the sink.
  bool placed() const { return parts_->reply.placed; }
  // The part of the bulk item that is in take_pipe() and not in its destination.
  ByteRange piped() const { return parts_->reply.piped; }
  PipeRef take_pipe() { return std::move(parts_->reply.pipe); }

  // The request may have been executed before: an earlier reply was lost together with the server's reply
  // cache, or an earlier attempt failed after the operation that changes something (with DELAY, for example).
  // NOENT and EXIST may then mean our own success.
  bool maybe_executed_before = false;

 private:
  // In one place, because five coroutines pass a reply on. From the frame store: one for each request.
  struct Parts : detail::InFrameStore {
    Parts(rpc::Reply r, const char* o)
        : reply(std::move(r)), op(o), decoder(ConstBytes(reply.head).subspan(reply.body)) {}
    rpc::Reply reply;
    const char* op;
    xdr::Decoder decoder;
    nfs4::nfsstat4 status = nfs4::NFS4_OK;
    uint32_t left = 0;  // results that were not taken yet
    uint32_t results = 0;
    std::optional<nfs4::SEQUENCE4res> sequence;
  };
  CompoundReply(rpc::Reply reply, const char* op) : parts_(std::make_unique<Parts>(std::move(reply), op)) {}
  Error exhausted(const char* op) const;
  Error malformed(const char* op) const;

  std::unique_ptr<Parts> parts_;
};

// For a COMPOUND of PUTFH and one operation: the operation's result, or the first error.
template <class Res>
Result<Res> take_behind_putfh(Result<CompoundReply>& reply) {
  if (!reply) return fail(std::move(reply.error()));
  if (Result<> put = reply->expect<nfs4::PUTFH4res>(); !put) return fail(std::move(put.error()));
  return reply->take<Res>();
}

}  // namespace nfsrdma::client::nfs4
