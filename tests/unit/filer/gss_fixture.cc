// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/filer/gss_fixture.h"

namespace nfsrdma::filer::test {

void GssTest::open_contexts(security::ContextTable::Limits limits, security::Identities::Lookup lookup) {
  auto opened = security::GssContexts::open(keytab(), std::move(lookup), limits);
  ASSERT_TRUE(opened) << describe(opened.error());
  contexts_ = *std::move(opened);
}

security::GssContexts& GssTest::contexts() {
  if (contexts_ == nullptr) open_contexts({});
  return *contexts_;
}

security::Verdict GssTest::judge(ByteVector& message, TimePoint when) {
  xdr::Decoder in(message);
  rpc::call_header header;
  EXPECT_TRUE(in(header)) << in.failure();
  return contexts().judge(header, message, in.position(), "192.0.2.1", when);
}

security::Verdict GssTest::judge(ByteVector message, Duration later) {
  return judge(message, Clock::now() + later);
}

std::optional<ByteVector> GssTest::arguments_of(ByteVector message) {
  const security::Verdict verdict = judge(message, Clock::now());
  if (verdict.kind != security::Verdict::Kind::kExecute) return std::nullopt;
  return ByteVector(message.begin() + static_cast<ptrdiff_t>(verdict.arguments), message.end());
}

ByteVector GssTest::encode_init(rpc::call_header header, const rpc::rpc_gss_cred_t& cred, ConstBytes token) {
  ByteVector body;
  xdr::Encoder b(body);
  EXPECT_TRUE(b(cred));
  header.cred = {rpc::RPCSEC_GSS, body};
  ByteVector message;
  xdr::Encoder x(message);
  EXPECT_TRUE(x(header) && x(rpc::rpc_gss_init_arg{token}));
  return message;
}

rpc::opaque_auth GssTest::verifier_of(const ByteVector& reply) {
  xdr::Decoder in(reply);
  rpc::reply_header header;
  EXPECT_TRUE(in(header));
  return header.verf;
}

}  // namespace nfsrdma::filer::test
