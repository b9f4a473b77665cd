// SPDX-License-Identifier: Apache-2.0
#include "filer/security/protected_call.h"

#include <algorithm>
#include <array>

#include "transport/runtime/log.h"

namespace nfsrdma::filer::security {

namespace {

constexpr size_t kWord = 4;
// xid, REPLY, MSG_ACCEPTED, flavor and length of the verifier, accept_stat.
constexpr size_t kHeaderBytes = 6 * kWord;
// The length of the wrapped body, and seq_num in front of the results.
constexpr size_t kBodyHead = 2 * kWord;

tree::Flavor flavor_of(rpc::rpc_gss_service_t service) {
  switch (service) {
    case rpc::rpc_gss_svc_none: return tree::Flavor::kKrb5;
    case rpc::rpc_gss_svc_integrity: return tree::Flavor::kKrb5i;
    case rpc::rpc_gss_svc_privacy: return tree::Flavor::kKrb5p;
  }
  return tree::Flavor::kKrb5;
}

// The offset of a view into `message`.
size_t offset_in(const ByteVector& message, ConstBytes view) {
  return static_cast<size_t>(view.data() - message.data());
}

}  // namespace

ProtectedCall::ProtectedCall(ContextPtr context, const rpc::rpc_gss_cred_vers_1_t& cred)
    : context_(std::move(context)), sequence_(cred.seq_num), service_(cred.service), who_(context_->who) {
  who_.security = flavor_of(service_);
}

std::optional<size_t> ProtectedCall::open(ByteVector& message, size_t offset) const {
  switch (service_) {
    case rpc::rpc_gss_svc_none: return offset;
    case rpc::rpc_gss_svc_integrity: return open_integrity(message, offset);
    case rpc::rpc_gss_svc_privacy: return open_privacy(message, offset);
  }
  return std::nullopt;
}

// "the server will reject the message (with ... GARBAGE_ARGS) if the sequence number embedded in the request
// body is different from the sequence number in the credential" (section 5.3.3.1).
bool ProtectedCall::has_sequence(ConstBytes body) const {
  return body.size() >= kWord && load_be32(body.data()) == sequence_;
}

std::optional<size_t> ProtectedCall::open_integrity(ByteVector& message, size_t offset) const {
  xdr::Decoder in(ConstBytes(message).subspan(offset));
  rpc::rpc_gss_integ_data data;
  if (!in(data) || in.left() != 0 || !has_sequence(data.databody_integ)) return std::nullopt;
  const ConstBytes pieces[] = {data.databody_integ};
  if (!context_->keys->verify(pieces, data.checksum)) return std::nullopt;
  const size_t body = offset_in(message, data.databody_integ);
  message.resize(body + data.databody_integ.size());
  return body + kWord;
}

std::optional<size_t> ProtectedCall::open_privacy(ByteVector& message, size_t offset) const {
  xdr::Decoder in(ConstBytes(message).subspan(offset));
  rpc::rpc_gss_priv_data data;
  if (!in(data) || in.left() != 0) return std::nullopt;
  const size_t token = offset_in(message, data.databody_priv);
  const Result<MutableBytes> body =
      context_->keys->unwrap(MutableBytes(message).subspan(token, data.databody_priv.size()));
  if (!body || !has_sequence(*body)) return std::nullopt;
  const size_t at = offset_in(message, *body);
  message.resize(at + body->size());
  return at + kWord;
}

size_t ProtectedCall::header_bytes() const {
  return kHeaderBytes + xdr_padded(context_->keys->mic_bytes());
}

size_t ProtectedCall::front() const {
  return header_bytes() + (service_ == rpc::rpc_gss_svc_none ? 0 : kBodyHead);
}

size_t ProtectedCall::behind() const {
  switch (service_) {
    case rpc::rpc_gss_svc_none: return 0;
    case rpc::rpc_gss_svc_integrity: return kWord + xdr_padded(context_->keys->mic_bytes());
    case rpc::rpc_gss_svc_privacy: {
      // Ciphers that work in blocks add up to one block, which the smallest body may not show.
      constexpr size_t kBlock = 16;
      return xdr_padded(context_->keys->wrapped_bytes(kWord) - kWord) + kBlock;
    }
  }
  return 0;
}

// "set to the checksum (the output of GSS_GetMIC()) of the sequence number (in network order) of the
// corresponding request" (section 5.3.3.2). Empty: it failed.
ByteVector ProtectedCall::verifier() const {
  std::array<std::byte, kWord> number{};
  store_be32(number.data(), sequence_);
  const ConstBytes pieces[] = {number};
  Result<ByteVector> mic = context_->keys->sign(pieces);
  if (!mic) log::warn("filer: a reply to {} cannot be signed: {}", who_.name, describe(mic.error()));
  return mic ? *std::move(mic) : ByteVector();
}

bool ProtectedCall::begin(const rpc::reply_header& header, ByteVector& out) const {
  rpc::reply_header signed_header = header;
  const bool accepted = header.stat == rpc::MSG_ACCEPTED;
  const ByteVector mic = accepted ? verifier() : ByteVector();
  if (accepted) {
    // "a failure results in ... an auth status of RPCSEC_GSS_CTXPROBLEM" (section 5.3.3.4.1).
    if (mic.empty()) {
      signed_header = {};
      signed_header.xid = header.xid;
      signed_header.stat = rpc::MSG_DENIED;
      signed_header.denied = rpc::AUTH_ERROR;
      signed_header.why = rpc::RPCSEC_GSS_CTXPROBLEM;
    } else {
      signed_header.verf = {rpc::RPCSEC_GSS, mic};
    }
  }
  xdr::Encoder x(out);
  return x(signed_header) && signed_header.stat == header.stat && header.success();
}

bool ProtectedCall::seal(const rpc::reply_header& header, ByteVector& reply) const {
  ByteVector head;
  head.reserve(header_bytes());
  if (!begin(header, head)) {
    reply = std::move(head);
    return !reply.empty();
  }
  if (head.size() != header_bytes() || reply.size() < front()) {
    log::error("filer: the room for a reply's header is of another length");
    return false;
  }
  switch (service_) {
    case rpc::rpc_gss_svc_none: std::copy(head.begin(), head.end(), reply.begin()); return true;
    case rpc::rpc_gss_svc_integrity: return seal_integrity(head, reply);
    case rpc::rpc_gss_svc_privacy: return seal_privacy(head, reply);
  }
  return false;
}

// The results stay where they are; the header and the checksum are put around them.
bool ProtectedCall::seal_integrity(const ByteVector& head, ByteVector& reply) const {
  const size_t body = head.size() + kWord;  // offset of seq_num
  const size_t body_bytes = reply.size() - body;
  std::copy(head.begin(), head.end(), reply.begin());
  store_be32(reply.data() + head.size(), static_cast<uint32_t>(body_bytes));
  store_be32(reply.data() + body, sequence_);
  const size_t mic_bytes = context_->keys->mic_bytes();
  const size_t checksum = reply.size() + kWord;
  reply.resize(checksum + xdr_padded(mic_bytes));
  store_be32(reply.data() + checksum - kWord, static_cast<uint32_t>(mic_bytes));
  const ConstBytes pieces[] = {ConstBytes(reply).subspan(body, body_bytes)};
  const Result<> made = context_->keys->sign(pieces, MutableBytes(reply).subspan(checksum, mic_bytes));
  // "a failure results in no RPC response being sent" (section 5.3.3.4.1).
  if (!made) log::warn("filer: results for {} cannot be signed: {}", who_.name, describe(made.error()));
  return made.has_value();
}

bool ProtectedCall::seal_privacy(const ByteVector& head, ByteVector& reply) const {
  const size_t body = front() - kWord;  // offset of seq_num
  store_be32(reply.data() + body, sequence_);
  const ConstBytes pieces[] = {ConstBytes(reply).subspan(body)};
  const size_t token_bytes = context_->keys->wrapped_bytes(pieces[0].size());
  ByteVector wrapped(head.size() + kWord + xdr_padded(token_bytes));
  std::copy(head.begin(), head.end(), wrapped.begin());
  store_be32(wrapped.data() + head.size(), static_cast<uint32_t>(token_bytes));
  const Result<> made =
      context_->keys->wrap(pieces, MutableBytes(wrapped).subspan(head.size() + kWord, token_bytes));
  if (!made) log::warn("filer: results for {} cannot be encrypted: {}", who_.name, describe(made.error()));
  reply = std::move(wrapped);
  return made.has_value();
}

}  // namespace nfsrdma::filer::security
