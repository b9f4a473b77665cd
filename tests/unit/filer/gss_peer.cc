// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/filer/gss_peer.h"

#include <array>
#include <stdexcept>

namespace nfsrdma::filer::test {

namespace {

std::array<std::byte, 4> word(uint32_t value) {
  std::array<std::byte, 4> bytes{};
  store_be32(bytes.data(), value);
  return bytes;
}

ByteVector joined(uint32_t sequence, ConstBytes body) {
  const auto number = word(sequence);
  ByteVector all(number.begin(), number.end());
  all.insert(all.end(), body.begin(), body.end());
  return all;
}

template <class T>
T checked(Result<T> result) {
  if (!result) ADD_FAILURE() << describe(result.error());
  return result ? *std::move(result) : T();
}

}  // namespace

ByteVector GssPeer::init_call(ConstBytes token, uint32_t xid) {
  rpc::rpc_gss_cred_t cred;
  cred.v1.gss_proc = rpc::RPCSEC_GSS_INIT;
  ByteVector body;
  xdr::Encoder b(body);
  EXPECT_TRUE(b(cred));
  rpc::call_header header;
  header.xid = rpc::Xid{xid};
  header.prog = nfs4::NFS4_PROGRAM;
  header.vers = nfs4::NFS_V4;
  header.cred = {rpc::RPCSEC_GSS, body};
  ByteVector message;
  xdr::Encoder x(message);
  EXPECT_TRUE(x(header) && x(rpc::rpc_gss_init_arg{token}));
  return message;
}

ByteVector GssPeer::init_call(uint32_t xid) {
  const gss::Step step = initiator_.step({});
  if (step.error) throw std::runtime_error(describe(*step.error));
  return init_call(step.token, xid);
}

bool GssPeer::take_init_reply(ConstBytes reply) {
  const auto res = init_results(reply);
  if (!res || res->gss_major != rpc::kGssComplete) return false;
  handle.assign(res->handle.begin(), res->handle.end());
  seq_window = res->seq_window;
  const gss::Step step = initiator_.step(res->gss_token);
  if (step.error || !step.done) return false;
  context.emplace(*initiator_.take());
  // "the verifier's ... flavor field is set to RPCSEC_GSS, and the body field set to the checksum of the
  // seq_window (in network order)" (RFC 2203 section 5.2.3.1).
  xdr::Decoder x(reply);
  rpc::reply_header header;
  EXPECT_TRUE(x(header));
  const auto window = word(res->seq_window);
  const ConstBytes pieces[] = {window};
  return header.verf.flavor == rpc::RPCSEC_GSS && context->verify(pieces, header.verf.body).has_value();
}

bool GssPeer::establish(const Exchange& exchange) {
  const auto reply = exchange(init_call(next_xid_++));
  return reply && take_init_reply(*reply);
}

GssCall GssPeer::data(uint32_t proc, ByteVector arguments) {
  GssCall call;
  call.xid = next_xid_++;
  call.proc = proc;
  call.cred.v1 = {rpc::RPCSEC_GSS_DATA, ++sequence, service, handle};
  call.body_sequence = sequence;
  call.arguments = std::move(arguments);
  return call;
}

GssCall GssPeer::destroy() {
  GssCall call = data();
  call.cred.v1.gss_proc = rpc::RPCSEC_GSS_DESTROY;
  return call;
}

ByteVector GssPeer::encode(const GssCall& call) const {
  // Word by word, because a test may want what rpc_gss_cred_t cannot say.
  const rpc::rpc_gss_cred_vers_1_t& cred = call.cred.v1;
  ByteVector body;
  xdr::Encoder b(body);
  EXPECT_TRUE(b(call.cred.version) && b(cred.gss_proc) && b(cred.seq_num) && b(cred.service) &&
              b.opaque(cred.handle, rpc::kMaxGssHandle));
  ByteVector message;
  xdr::Encoder x(message);
  EXPECT_TRUE(x(call.xid) && x(rpc::CALL) && x(rpc::kRpcVersion) && x(call.prog) && x(call.vers) &&
              x(call.proc) && x(rpc::opaque_auth{rpc::RPCSEC_GSS, body}));
  const ConstBytes header[] = {message};
  const ByteVector mic = checked(context->sign(header));
  EXPECT_TRUE(x(rpc::opaque_auth{rpc::RPCSEC_GSS, mic}));
  const ByteVector plain = joined(call.body_sequence, call.arguments);
  const ConstBytes pieces[] = {plain};
  switch (call.cred.v1.service) {
    case rpc::rpc_gss_svc_none: EXPECT_TRUE(x.raw(call.arguments)); break;
    case rpc::rpc_gss_svc_integrity:
      EXPECT_TRUE(x(rpc::rpc_gss_integ_data{plain, checked(context->sign(pieces))}));
      break;
    case rpc::rpc_gss_svc_privacy: {
      ByteVector token(context->wrapped_bytes(plain.size()));
      EXPECT_TRUE(context->wrap(pieces, token));
      EXPECT_TRUE(x(rpc::rpc_gss_priv_data{token}));
    }
  }
  return message;
}

std::optional<ByteVector> GssPeer::open(const GssCall& call, ByteVector reply) const {
  xdr::Decoder x(reply);
  rpc::reply_header header;
  if (!x(header)) return std::nullopt;
  if (header.stat == rpc::MSG_ACCEPTED) {
    const auto number = word(call.cred.v1.seq_num);
    const ConstBytes pieces[] = {number};
    if (header.verf.flavor != rpc::RPCSEC_GSS || !context->verify(pieces, header.verf.body))
      return std::nullopt;
  }
  ConstBytes results = x.rest();
  if (header.success() && call.cred.v1.gss_proc == rpc::RPCSEC_GSS_DATA) {
    rpc::rpc_gss_integ_data integrity;
    rpc::rpc_gss_priv_data privacy;
    if (call.cred.v1.service == rpc::rpc_gss_svc_integrity) {
      if (!x(integrity) || x.left() != 0) return std::nullopt;
      results = integrity.databody_integ;
      const ConstBytes pieces[] = {results};
      if (!context->verify(pieces, integrity.checksum)) return std::nullopt;
    } else if (call.cred.v1.service == rpc::rpc_gss_svc_privacy) {
      if (!x(privacy) || x.left() != 0) return std::nullopt;
      const auto at = static_cast<size_t>(privacy.databody_priv.data() - reply.data());
      const auto plain = context->unwrap(MutableBytes(reply).subspan(at, privacy.databody_priv.size()));
      if (!plain) return std::nullopt;
      results = *plain;
    }
    if (call.cred.v1.service != rpc::rpc_gss_svc_none) {
      if (results.size() < 4 || load_be32(results.data()) != call.cred.v1.seq_num) return std::nullopt;
      results = results.subspan(4);
    }
  }
  header.verf = {};
  ByteVector plain;
  xdr::Encoder out(plain);
  EXPECT_TRUE(out(header) && out.raw(results));
  return plain;
}

rpc::auth_stat denied_by(ConstBytes reply) {
  xdr::Decoder x(reply);
  rpc::reply_header header;
  if (!x(header) || header.stat != rpc::MSG_DENIED || header.denied != rpc::AUTH_ERROR) return rpc::AUTH_OK;
  return header.why;
}

std::optional<rpc::accept_stat> accepted_as(ConstBytes reply) {
  xdr::Decoder x(reply);
  rpc::reply_header header;
  if (!x(header) || header.stat != rpc::MSG_ACCEPTED) return std::nullopt;
  return header.accepted;
}

std::optional<rpc::rpc_gss_init_res> init_results(ConstBytes reply) {
  xdr::Decoder x(reply);
  rpc::reply_header header;
  rpc::rpc_gss_init_res res;
  if (!x(header) || !header.success() || !x(res) || x.left() != 0) return std::nullopt;
  return res;
}

}  // namespace nfsrdma::filer::test
