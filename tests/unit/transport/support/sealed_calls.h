// SPDX-License-Identifier: Apache-2.0
// Calls with a FakeSecurity over TCP, and the script of their server.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <string>

#include "tests/unit/transport/support/fake_security.h"
#include "tests/unit/transport/support/rig.h"

namespace nfsrdma::test {

inline std::optional<OpenedCall> next_call(PeerSocket& s) {
  const auto message = s.read_record();
  if (!message) return std::nullopt;
  auto call = open_call(*message);
  EXPECT_TRUE(call) << "not a sealed call";
  return call;
}

// Answers calls with their arguments until the client closes the connection.
inline void echo_all(PeerSocket& s) {
  while (const auto call = next_call(s)) s.write_record(seal_reply(*call, call->arguments));
}

inline rpc::Call test_call(std::shared_ptr<FakeSecurity> security, ConstBytes arguments) {
  rpc::Call c;
  c.op = "TEST";
  c.head = call_head(arguments);
  return FakeSecurity::protect(std::move(security), std::move(c));
}

inline rpc::Call sealed_read_call(std::shared_ptr<FakeSecurity> security, Slice destination) {
  rpc::Call c;
  c.op = "READ";
  c.head = call_head();
  c.sink = {std::move(destination), locate_read, kReadDataOffset, nullptr};
  return FakeSecurity::protect(std::move(security), std::move(c));
}

inline ByteVector results_of(const rpc::Outcome& o) {
  EXPECT_TRUE(o.reply) << text(o);
  if (!o.reply) return {};
  const ConstBytes head = o.reply->head;
  return {head.begin() + static_cast<ptrdiff_t>(o.reply->body), head.end()};
}

inline bool same_bytes(ConstBytes a, ConstBytes b) {
  return std::ranges::equal(a, b);
}

class Sealed : public testing::TestWithParam<Service> {
 protected:
  std::shared_ptr<FakeSecurity> security = std::make_shared<FakeSecurity>(GetParam());
  bool wraps() const { return GetParam() != Service::kAuthentication; }
};

inline std::string name_of_service(const testing::TestParamInfo<Service>& info) {
  constexpr const char* kNames[] = {"", "Authentication", "Integrity", "Privacy"};
  return kNames[static_cast<size_t>(info.param)];
}

inline auto every_service() {
  return testing::Values(Service::kAuthentication, Service::kIntegrity, Service::kPrivacy);
}

}  // namespace nfsrdma::test
