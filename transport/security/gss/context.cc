// SPDX-License-Identifier: Apache-2.0
#include "transport/security/gss/context.h"

#include <algorithm>
#include <array>
#include <vector>

#include "transport/security/gss/failure.h"
#include "transport/security/gss/library.h"

namespace nfsrdma::gss {

namespace {

// The library's list of buffers: the pieces and a few of its own. Lists of usual length take no memory.
class Vector {
 public:
  explicit Vector(size_t buffers) {
    if (buffers > few_.size()) many_.resize(buffers);
  }
  gss_iov_buffer_desc& add(OM_uint32 type, gss_buffer_desc buffer = GSS_C_EMPTY_BUFFER) {
    gss_iov_buffer_desc& added = data()[used_++];
    added = {type, buffer};
    return added;
  }
  gss_iov_buffer_desc* data() { return many_.empty() ? few_.data() : many_.data(); }
  int size() const { return static_cast<int>(used_); }

 private:
  std::array<gss_iov_buffer_desc, 12> few_;
  std::vector<gss_iov_buffer_desc> many_;
  size_t used_ = 0;
};

// What gss_wrap_iov() writes around the data, in the order of a gss_wrap() token.
struct Wrapping {
  size_t header = 0;
  size_t padding = 0;
  size_t trailer = 0;
};

std::optional<Wrapping> wrapping_of(gss_ctx_id_t context, size_t data_bytes, OM_uint32& major,
                                    OM_uint32& minor) {
  std::array<gss_iov_buffer_desc, 4> parts{};
  parts[0].type = GSS_IOV_BUFFER_TYPE_HEADER;
  parts[1] = {GSS_IOV_BUFFER_TYPE_DATA, {data_bytes, nullptr}};
  parts[2].type = GSS_IOV_BUFFER_TYPE_PADDING;
  parts[3].type = GSS_IOV_BUFFER_TYPE_TRAILER;
  major = gss_wrap_iov_length(&minor, context, 1, GSS_C_QOP_DEFAULT, nullptr, parts.data(), 4);
  if (failed(major)) return std::nullopt;
  return Wrapping{parts[0].buffer.length, parts[2].buffer.length, parts[3].buffer.length};
}

// RFC 4121 section 4.2.6: TOK_ID 04 04 begins a MIC token, 05 04 a wrap token, and 16 bytes are their header.
// Tokens of RFC 1964 (DES3, RC4; RFC 8429 deprecates both) begin with 60.
constexpr size_t kTokenHeaderBytes = 16;
constexpr std::byte kMicToken{0x04};
constexpr std::byte kWrapToken{0x05};
constexpr std::byte kSealedFlag{0x02};  // of the third byte: encrypted

bool begins_as(ConstBytes token, std::byte kind) {
  return token.size() >= kTokenHeaderBytes && token[0] == kind && token[1] == std::byte{0x04};
}

// The length in front of an exported context. The library believes the counts inside: it takes some shortened
// contexts for whole ones, and allocates by counts that lie behind the end of others.
constexpr size_t kExportedLengthBytes = 4;

size_t sum_of(Pieces pieces) {
  size_t sum = 0;
  for (const ConstBytes piece : pieces) sum += piece.size();
  return sum;
}

Result<Name> name_in(gss_ctx_id_t context, bool of_initiator) {
  OM_uint32 minor = 0;
  gss_name_t name = GSS_C_NO_NAME;
  const OM_uint32 major =
      gss_inquire_context(&minor, context, of_initiator ? &name : nullptr, of_initiator ? nullptr : &name,
                          nullptr, nullptr, nullptr, nullptr, nullptr);
  if (failed(major)) return fail(error_of(major, minor, "gss_inquire_context"));
  return Name::adopt(name);
}

}  // namespace

void Context::Release::operator()(gss_ctx_id_struct* context) const {
  OM_uint32 minor = 0;
  gss_delete_sec_context(&minor, &context, GSS_C_NO_BUFFER);
}

Result<Context> Context::adopt(Handle context) {
  gss_iov_buffer_desc mic{GSS_IOV_BUFFER_TYPE_MIC_TOKEN, GSS_C_EMPTY_BUFFER};
  OM_uint32 minor = 0;
  OM_uint32 major = gss_get_mic_iov_length(&minor, context.get(), GSS_C_QOP_DEFAULT, &mic, 1);
  if (failed(major)) return fail(error_of(major, minor, "gss_get_mic_iov_length"));
  if (!wrapping_of(context.get(), 0, major, minor))
    return fail(error_of(major, minor, "gss_wrap_iov_length"));
  Context adopted(std::move(context), mic.buffer.length);
  const auto own = adopted.sign({});
  if (!own) return fail(own.error());
  if (!begins_as(*own, kMicToken))
    return fail(make_error(Failure::kOther, "gss_get_mic", {}, "DES3 or RC4, which are too weak; use AES"));
  return adopted;
}

Result<ByteVector> Context::exported() && {
  gss_ctx_id_t context = context_.release();
  Buffer bytes;
  OM_uint32 minor = 0;
  const OM_uint32 major = gss_export_sec_context(&minor, &context, bytes.out());
  context_.reset(context);
  if (failed(major)) return fail(error_of(major, minor, "gss_export_sec_context"));
  ByteVector exported(kExportedLengthBytes + bytes.bytes().size());
  store_be32(exported.data(), static_cast<uint32_t>(bytes.bytes().size()));
  std::ranges::copy(bytes.bytes(), exported.begin() + kExportedLengthBytes);
  return exported;
}

Result<Context> Context::imported(ConstBytes exported) {
  if (exported.size() < kExportedLengthBytes ||
      load_be32(exported.data()) != exported.size() - kExportedLengthBytes)
    return fail(make_error(Failure::kBadToken, "gss_import_sec_context"));
  gss_buffer_desc bytes = readable(exported.subspan(kExportedLengthBytes));
  gss_ctx_id_t context = GSS_C_NO_CONTEXT;
  OM_uint32 minor = 0;
  const OM_uint32 major = gss_import_sec_context(&minor, &bytes, &context);
  Handle handle(context);
  if (failed(major)) return fail(error_of(major, minor, "gss_import_sec_context"));
  return adopt(std::move(handle));
}

Result<> Context::sign(Pieces pieces, MutableBytes mic) const {
  Vector list(pieces.size() + 1);
  for (const ConstBytes piece : pieces) list.add(GSS_IOV_BUFFER_TYPE_DATA, readable(piece));
  const gss_iov_buffer_desc& token = list.add(GSS_IOV_BUFFER_TYPE_MIC_TOKEN, {mic.size(), mic.data()});
  OM_uint32 minor = 0;
  const OM_uint32 major =
      gss_get_mic_iov(&minor, context_.get(), GSS_C_QOP_DEFAULT, list.data(), list.size());
  if (failed(major)) return fail(error_of(major, minor, "gss_get_mic"));
  if (token.buffer.length != mic.size())
    return fail(make_error(Failure::kOther, "gss_get_mic", {}, "a MIC of another length"));
  return {};
}

Result<ByteVector> Context::sign(Pieces pieces) const {
  ByteVector mic(mic_bytes_);
  NFSRDMA_TRY(sign(pieces, mic));
  return mic;
}

// Supplementary bits (GSS_S_OLD_TOKEN and its like) are no failure: they judge the order of tokens, which
// RPCSEC_GSS leaves to its own sequence window (RFC 2203 section 5.2.2).
Result<> Context::verify(Pieces pieces, ConstBytes mic) const {
  // krb5 1.20 aborts the process at a MIC token of just a header (an assertion in checksum_iov_v3), so
  // nothing of another length gets there. Both ends sign with the same key type, and so with the same length.
  if (mic.size() != mic_bytes_ || !begins_as(mic, kMicToken))
    return fail(make_error(Failure::kBadToken, "gss_verify_mic"));
  Vector list(pieces.size() + 1);
  for (const ConstBytes piece : pieces) list.add(GSS_IOV_BUFFER_TYPE_DATA, readable(piece));
  list.add(GSS_IOV_BUFFER_TYPE_MIC_TOKEN, readable(mic));
  OM_uint32 minor = 0;
  const OM_uint32 major = gss_verify_mic_iov(&minor, context_.get(), nullptr, list.data(), list.size());
  if (failed(major)) return fail(error_of(major, minor, "gss_verify_mic"));
  return {};
}

size_t Context::wrapped_bytes(size_t data_bytes) const {
  OM_uint32 major = 0;
  OM_uint32 minor = 0;
  // adopt() has seen that it works.
  const Wrapping around = wrapping_of(context_.get(), data_bytes, major, minor).value_or(Wrapping{});
  return around.header + data_bytes + around.padding + around.trailer;
}

Result<> Context::wrap(Pieces pieces, MutableBytes token) const {
  const size_t data_bytes = sum_of(pieces);
  OM_uint32 minor = 0;
  OM_uint32 major = 0;
  const auto around = wrapping_of(context_.get(), data_bytes, major, minor);
  if (!around) return fail(error_of(major, minor, "gss_wrap_iov_length"));
  if (around->header + data_bytes + around->padding + around->trailer != token.size())
    return fail(make_error(Failure::kOther, "gss_wrap", {}, "room of another length than wrapped_bytes()"));

  std::byte* at = token.data() + around->header;
  for (const ConstBytes piece : pieces) at = std::copy(piece.begin(), piece.end(), at);
  Vector list(4);
  list.add(GSS_IOV_BUFFER_TYPE_HEADER, {around->header, token.data()});
  list.add(GSS_IOV_BUFFER_TYPE_DATA, {data_bytes, token.data() + around->header});
  list.add(GSS_IOV_BUFFER_TYPE_PADDING, {around->padding, at});
  list.add(GSS_IOV_BUFFER_TYPE_TRAILER, {around->trailer, at + around->padding});
  int encrypted = 0;
  major = gss_wrap_iov(&minor, context_.get(), 1, GSS_C_QOP_DEFAULT, &encrypted, list.data(), list.size());
  if (failed(major)) return fail(error_of(major, minor, "gss_wrap"));
  if (encrypted == 0) return fail(make_error(Failure::kNoConfidentiality, "gss_wrap"));
  return {};
}

Result<MutableBytes> Context::unwrap(MutableBytes token) const {
  if (!begins_as(token, kWrapToken)) return fail(make_error(Failure::kBadToken, "gss_unwrap"));
  if ((token[2] & kSealedFlag) == std::byte{})
    return fail(make_error(Failure::kNoConfidentiality, "gss_unwrap"));
  Vector list(2);
  list.add(GSS_IOV_BUFFER_TYPE_STREAM, {token.size(), token.data()});
  const gss_iov_buffer_desc& data = list.add(GSS_IOV_BUFFER_TYPE_DATA);
  int encrypted = 0;
  OM_uint32 minor = 0;
  const OM_uint32 major =
      gss_unwrap_iov(&minor, context_.get(), &encrypted, nullptr, list.data(), list.size());
  if (failed(major)) return fail(error_of(major, minor, "gss_unwrap"));
  if (encrypted == 0) return fail(make_error(Failure::kNoConfidentiality, "gss_unwrap"));
  return MutableBytes(static_cast<std::byte*>(data.buffer.value), data.buffer.length);
}

std::optional<std::chrono::seconds> Context::lifetime() const {
  OM_uint32 minor = 0;
  OM_uint32 seconds = 0;
  if (failed(gss_context_time(&minor, context_.get(), &seconds))) return std::chrono::seconds(0);
  if (seconds == GSS_C_INDEFINITE) return std::nullopt;
  return std::chrono::seconds(seconds);
}

Result<Name> Context::initiator() const {
  return name_in(context_.get(), true);
}

Result<Name> Context::acceptor() const {
  return name_in(context_.get(), false);
}

}  // namespace nfsrdma::gss
