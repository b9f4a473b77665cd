// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/security/gss_server.h"

#include <gtest/gtest.h>

#include <array>
#include <cerrno>

namespace nfsrdma::test {
namespace {

ByteVector denied(rpc::Xid xid, rpc::auth_stat why) {
  rpc::reply_header header;
  header.xid = xid;
  header.stat = rpc::MSG_DENIED;
  header.denied = rpc::AUTH_ERROR;
  header.why = why;
  ByteVector reply;
  xdr::Encoder x(reply);
  x(header);
  return reply;
}

std::array<std::byte, 4> word(uint32_t value) {
  std::array<std::byte, 4> bytes;
  store_be32(bytes.data(), value);
  return bytes;
}

ByteVector mic_of(const gss::Context& context, ConstBytes bytes) {
  const std::array<ConstBytes, 1> pieces{bytes};
  return context.sign(pieces).value();
}

// The message with its bulk items and their padding.
ByteVector whole(const rpc::MessageParts& parts) {
  ByteVector message;
  size_t from = 0;
  const auto append = [&](ConstBytes bytes) { message.insert(message.end(), bytes.begin(), bytes.end()); };
  for (const xdr::Bulk& bulk : parts.bulks) {
    append(ConstBytes(parts.head).subspan(from, bulk.inline_offset - from));
    EXPECT_EQ(message.size(), bulk.position);
    append(bulk.data);
    message.resize(message.size() + xdr_padding(bulk.data.size()));
    from = bulk.inline_offset;
  }
  append(ConstBytes(parts.head).subspan(from));
  return message;
}

}  // namespace

Task<rpc::Outcome> GssServer::call(rpc::Call& call) {
  store_be32(call.head.data(), next_xid_++);
  if (call.security) {
    if (Result<> sealed = call.security->seal(call); !sealed)
      co_return rpc::Outcome{fail(std::move(sealed.error())), 0};
  }
  ByteVector message = whole(call.message());
  // The sealed message has the head's XID.
  if (on_the_way_there) on_the_way_there(message);
  rpc::ReceivedReply received;
  received.head = serve(message);
  if (on_the_way_back) on_the_way_back(received.head);
  if (call.security) {
    if (Result<> opened = call.security->open(call, received); !opened)
      co_return rpc::Outcome{fail(std::move(opened.error())), 1};
  }
  xdr::Decoder x(received.head);
  rpc::reply_header header;
  if (!x(header)) co_return rpc::Outcome{fail(system_error(EIO, "call", x.failure())), 1};
  if (Result<> accepted = check(header, call.op); !accepted)
    co_return rpc::Outcome{fail(std::move(accepted.error())), 1};
  rpc::Reply reply;
  reply.body = x.position();
  reply.head = std::move(received.head);
  co_return rpc::Outcome{std::move(reply), 1};
}

ByteVector GssServer::serve(ConstBytes message) {
  xdr::Decoder x(message);
  rpc::call_header header;
  EXPECT_TRUE(x(header)) << x.failure();
  EXPECT_EQ(header.cred.flavor, rpc::RPCSEC_GSS);
  const auto cred = xdr::decode<rpc::rpc_gss_cred_t>(header.cred.body, "credential");
  EXPECT_TRUE(cred);
  procedures.push_back(cred->v1.gss_proc);
  const ConstBytes arguments = message.subspan(x.position());
  if (rpc::creates_context(cred->v1.gss_proc)) return serve_init(header, cred->v1, arguments);
  // Up to and including the credential: six words, flavor, length, body.
  const size_t covered = 24 + 8 + xdr_padded(header.cred.body.size());
  return serve_data(header, cred->v1, message.first(covered), arguments);
}

ByteVector GssServer::serve_init(const rpc::call_header& header, const rpc::rpc_gss_cred_vers_1_t& cred,
                                 ConstBytes arguments) {
  if (refuses_init) return denied(header.xid, rpc::AUTH_REJECTEDCRED);
  EXPECT_TRUE(cred.handle.empty());
  const auto token = xdr::decode<rpc::rpc_gss_init_arg>(arguments, "INIT");
  EXPECT_TRUE(token);
  gss::Acceptor acceptor(acceptor_);
  const gss::Step step = acceptor.step(token->gss_token);
  rpc::reply_header reply;
  reply.xid = header.xid;
  rpc::rpc_gss_init_res result;
  result.gss_major = step.major;
  result.gss_minor = step.minor;
  const std::string handle = "context " + std::to_string(next_handle_++) + "!";
  ByteVector mic;
  if (step.done) {
    gss::Context context = acceptor.take().value();
    result.handle = std::as_bytes(std::span(handle));
    result.gss_token = step.token;
    result.seq_window = window;
    if (signs_window) {
      mic = mic_of(context, word(window));
      reply.verf = {rpc::RPCSEC_GSS, mic};
    }
    contexts_.emplace(handle, std::move(context));
  }
  ByteVector out;
  xdr::Encoder x(out);
  EXPECT_TRUE(x(reply) && x(result));
  return out;
}

ByteVector GssServer::serve_data(const rpc::call_header& header, const rpc::rpc_gss_cred_vers_1_t& cred,
                                 ConstBytes covered, ConstBytes arguments) {
  sequences.push_back(cred.seq_num);
  const auto found =
      contexts_.find(std::string(reinterpret_cast<const char*>(cred.handle.data()), cred.handle.size()));
  if (found == contexts_.end()) return denied(header.xid, rpc::RPCSEC_GSS_CREDPROBLEM);
  const gss::Context& context = found->second;
  const std::array<ConstBytes, 1> pieces{covered};
  if (header.verf.flavor != rpc::RPCSEC_GSS || !context.verify(pieces, header.verf.body))
    return denied(header.xid, rpc::RPCSEC_GSS_CREDPROBLEM);

  // The arguments in the clear.
  ByteVector clear(arguments.begin(), arguments.end());
  if (cred.service == rpc::rpc_gss_svc_integrity) {
    const auto body = xdr::decode<rpc::rpc_gss_integ_data>(arguments, "arguments");
    EXPECT_TRUE(body);
    const std::array<ConstBytes, 1> data{body->databody_integ};
    EXPECT_TRUE(context.verify(data, body->checksum));
    clear.assign(body->databody_integ.begin(), body->databody_integ.end());
  } else if (cred.service == rpc::rpc_gss_svc_privacy) {
    const auto body = xdr::decode<rpc::rpc_gss_priv_data>(arguments, "arguments");
    EXPECT_TRUE(body);
    ByteVector token(body->databody_priv.begin(), body->databody_priv.end());
    const auto data = context.unwrap(token);
    EXPECT_TRUE(data);
    clear.assign(data->begin(), data->end());
  }
  if (cred.service != rpc::rpc_gss_svc_none) {
    EXPECT_EQ(load_be32(clear.data()), cred.seq_num);
    clear.erase(clear.begin(), clear.begin() + 4);
  }
  last_arguments = clear;

  ByteVector data;
  const auto number = word(cred.seq_num);
  data.insert(data.end(), number.begin(), number.end());
  data.insert(data.end(), clear.begin(), clear.end());
  rpc::reply_header reply;
  reply.xid = header.xid;
  const ByteVector mic = mic_of(context, number);
  reply.verf = {rpc::RPCSEC_GSS, mic};
  ByteVector out;
  xdr::Encoder x(out);
  x(reply);
  if (cred.gss_proc == rpc::RPCSEC_GSS_DESTROY && !wraps_destroy) {
    contexts_.erase(found);
    return out;
  }
  if (cred.service == rpc::rpc_gss_svc_none) x.raw(clear);
  if (cred.service == rpc::rpc_gss_svc_integrity) {
    const ByteVector checksum = mic_of(context, data);
    x(rpc::rpc_gss_integ_data{data, checksum});
  }
  if (cred.service == rpc::rpc_gss_svc_privacy) {
    ByteVector token(context.wrapped_bytes(data.size()));
    const std::array<ConstBytes, 1> whole_data{ConstBytes(data)};
    EXPECT_TRUE(context.wrap(whole_data, token));
    x(rpc::rpc_gss_priv_data{token});
  }
  if (cred.gss_proc == rpc::RPCSEC_GSS_DESTROY) contexts_.erase(found);
  return out;
}

}  // namespace nfsrdma::test
