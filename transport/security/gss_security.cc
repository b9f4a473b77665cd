// SPDX-License-Identifier: Apache-2.0
#include "transport/security/gss_security.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "transport/security/gss/failure.h"
#include "xdr/rpc.h"

namespace nfsrdma::security {
namespace {

// Where the credential begins: XID, CALL, RPC version, program, version, procedure.
constexpr size_t kCredentialOffset = 24;
// Inside of it: flavor, length, version; then gss_proc and seq_num.
constexpr size_t kProcedureOffset = 12;
constexpr size_t kSequenceOffset = 16;
// flavor and length of the verifier.
constexpr size_t kVerifierWords = 8;

using Word = std::array<std::byte, 4>;

Word word_of(uint32_t value) {
  Word word;
  store_be32(word.data(), value);
  return word;
}

Error bad_reply(const char* op, const char* cause) {
  return gss::make_error(gss::Failure::kBadSignature, op, {}, cause);
}

void append_opaque(ByteVector& to, ConstBytes bytes) {
  const Word length = word_of(static_cast<uint32_t>(bytes.size()));
  to.insert(to.end(), length.begin(), length.end());
  to.insert(to.end(), bytes.begin(), bytes.end());
  to.resize(to.size() + xdr_padding(bytes.size()));
}

bool destroys_context(const rpc::Call& call) {
  return load_be32(call.head.data() + kCredentialOffset + kProcedureOffset) == rpc::RPCSEC_GSS_DESTROY;
}

// What wrapping adds to data of any length; block ciphers pad.
size_t wrap_overhead(const gss::Context& context) {
  size_t most = 0;
  for (size_t n = 0; n <= 16; n += 4) most = std::max(most, context.wrapped_bytes(n) - n);
  return most;
}

TimePoint end_of(const gss::Context& context) {
  const auto lifetime = context.lifetime();
  return lifetime ? Clock::now() + *lifetime : TimePoint::max();
}

}  // namespace

ByteVector encode_gss_credential(const rpc::rpc_gss_cred_vers_1_t& credential) {
  ByteVector body, encoded;
  xdr::Encoder b(body);
  b(rpc::rpc_gss_cred_t{.v1 = credential});
  xdr::Encoder x(encoded);
  x(rpc::opaque_auth{rpc::RPCSEC_GSS, body});
  return encoded;
}

GssSecurity::GssSecurity(gss::Context context, ByteVector handle, uint32_t window,
                         rpc::rpc_gss_service_t service)
    : context_(std::move(context)),
      window_(window),
      service_(service),
      header_(encode_gss_credential({.service = service, .handle = handle})),
      credential_bytes_(header_.size()),
      expires_(end_of(context_)) {
  const ByteVector mic(context_.mic_bytes());
  xdr::Encoder x(header_);
  x(rpc::opaque_auth{rpc::RPCSEC_GSS, mic});
  reply_overhead_ = verifier_bytes();
  // The lengths of the body and of the checksum, and seq_num.
  if (service_ == rpc::rpc_gss_svc_integrity) reply_overhead_ += 12 + verifier_bytes();
  if (service_ == rpc::rpc_gss_svc_privacy) reply_overhead_ += 8 + xdr_padded(wrap_overhead(context_));
}

void GssSecurity::set_procedure(rpc::rpc_gss_proc_t procedure) {
  store_be32(header_.data() + kProcedureOffset, procedure);
}

Result<> GssSecurity::seal(rpc::Call& call) {
  if (sequence_ >= rpc::MAXSEQ - 1 || Clock::now() >= expires_)
    return fail(gss::make_error(gss::Failure::kContextExpired, call.op));
  call.sequence = ++sequence_;
  std::byte* const credential = call.head.data() + kCredentialOffset;
  store_be32(credential + kSequenceOffset, call.sequence);
  // Section 5.3.1: "The checksum of the RPC header (up to and including the credential) is computed using the
  // GSS_GetMIC() call".
  const std::array<ConstBytes, 1> covered{ConstBytes(call.head).first(kCredentialOffset + credential_bytes_)};
  const MutableBytes mic(credential + credential_bytes_ + kVerifierWords, context_.mic_bytes());
  NFSRDMA_TRY(context_.sign(covered, mic));
  return service_ == rpc::rpc_gss_svc_none ? Result<>{} : wrap_arguments(call);
}

// Sections 5.3.2.2 and 5.3.2.3: the sequence number and the arguments, signed or encrypted together.
Result<> GssSecurity::wrap_arguments(rpc::Call& call) {
  static constexpr std::array<std::byte, 4> kPadding{};
  const Word sequence = word_of(call.sequence);
  const size_t front = kCredentialOffset + header_.size();
  const ConstBytes head = call.head;
  pieces_.clear();
  pieces_.emplace_back(sequence);
  size_t from = front;
  size_t total = sequence.size();
  const auto add = [&](ConstBytes piece) {
    if (!piece.empty()) pieces_.push_back(piece);
    total += piece.size();
  };
  for (const xdr::Bulk& bulk : call.bulks) {
    add(head.subspan(from, bulk.inline_offset - from));
    add(bulk.data);
    add(ConstBytes(kPadding).first(xdr_padding(bulk.data.size())));
    from = bulk.inline_offset;
  }
  add(head.subspan(from));

  auto sealed = std::make_unique<rpc::MessageParts>();
  const Word length = word_of(
      static_cast<uint32_t>(service_ == rpc::rpc_gss_svc_integrity ? total : context_.wrapped_bytes(total)));
  ByteVector& out = sealed->head;
  out.reserve(head.size() + 64 + (call.bulks.empty() || service_ == rpc::rpc_gss_svc_integrity ? 0 : total));
  out.assign(head.begin(), head.begin() + static_cast<ptrdiff_t>(front));
  out.insert(out.end(), length.begin(), length.end());
  if (service_ == rpc::rpc_gss_svc_integrity) {
    out.insert(out.end(), sequence.begin(), sequence.end());
    out.insert(out.end(), head.begin() + static_cast<ptrdiff_t>(front), head.end());
    sealed->bulks = call.bulks;
    for (xdr::Bulk& bulk : sealed->bulks) {
      bulk.position += length.size() + sequence.size();
      bulk.inline_offset += length.size() + sequence.size();
    }
    Result<ByteVector> mic = context_.sign(pieces_);
    if (!mic) return fail(std::move(mic.error()));
    append_opaque(out, *mic);
  } else {
    const size_t wrapped = context_.wrapped_bytes(total);
    const size_t at = out.size();
    out.resize(at + xdr_padded(wrapped));
    NFSRDMA_TRY(context_.wrap(pieces_, MutableBytes(out).subspan(at, wrapped)));
  }
  call.sealed = std::move(sealed);
  return {};
}

// The reply to DESTROY has no results. Section 5.4 has the server answer "as it would to a data request",
// with an empty body wrapped; Linux' server does not wrap it.
Result<> GssSecurity::open(const rpc::Call& call, rpc::ReceivedReply& reply) {
  xdr::Decoder x(reply.head);
  rpc::reply_header header;
  if (!x(header)) return fail(bad_reply(call.op, x.failure()));
  if (header.stat != rpc::MSG_ACCEPTED) return {};
  // Section 5.3.3.2: "the checksum (the output of GSS_GetMIC()) of the sequence number (in network order) of
  // the corresponding request".
  if (header.verf.flavor != rpc::RPCSEC_GSS) return fail(bad_reply(call.op, "the reply is not signed"));
  const Word sequence = word_of(call.sequence);
  const std::array<ConstBytes, 1> covered{ConstBytes(sequence)};
  NFSRDMA_TRY(context_.verify(covered, header.verf.body));
  if (service_ == rpc::rpc_gss_svc_none || header.accepted != rpc::SUCCESS || destroys_context(call))
    return {};
  if (reply.placed) return fail(bad_reply(call.op, "results were placed before they were verified"));
  return unwrap_results(call, reply.head, x.position());
}

Result<> GssSecurity::unwrap_results(const rpc::Call& call, ByteVector& head, size_t results) const {
  xdr::Decoder x(ConstBytes(head).subspan(results));
  ConstBytes data;
  if (service_ == rpc::rpc_gss_svc_integrity) {
    rpc::rpc_gss_integ_data body;
    if (!x(body) || x.left() != 0) return fail(bad_reply(call.op, "the signed results cannot be decoded"));
    const std::array<ConstBytes, 1> covered{body.databody_integ};
    NFSRDMA_TRY(context_.verify(covered, body.checksum));
    data = body.databody_integ;
  } else {
    rpc::rpc_gss_priv_data body;
    if (!x(body) || x.left() != 0) return fail(bad_reply(call.op, "the encrypted results cannot be decoded"));
    const size_t at = static_cast<size_t>(body.databody_priv.data() - head.data());
    Result<MutableBytes> clear = context_.unwrap(MutableBytes(head).subspan(at, body.databody_priv.size()));
    if (!clear) return fail(std::move(clear.error()));
    data = *clear;
  }
  // Section 5.3.3.2: results "are encoded in exactly the same way as the procedure arguments were in the
  // corresponding request", with its seq_num. Another number: the results of another call.
  if (data.size() < 4 || load_be32(data.data()) != call.sequence)
    return fail(bad_reply(call.op, "the results belong to another call"));
  const ConstBytes clear = data.subspan(4);
  std::memmove(head.data() + results, clear.data(), clear.size());
  head.resize(results + clear.size());
  return {};
}

}  // namespace nfsrdma::security
