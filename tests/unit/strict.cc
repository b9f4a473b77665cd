// SPDX-License-Identifier: Apache-2.0
// Linked into every unit test: a line of the log that names an internal error ends the test program. Such a
// line says that this program broke a rule of its own (transport/runtime/state_machine.h), which release
// builds survive.
#include <gtest/gtest.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string_view>

namespace nfsrdma::test {
namespace {

class Strict : public spdlog::sinks::base_sink<std::mutex> {
 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    const std::string_view text(message.payload.data(), message.payload.size());
    if (!text.starts_with("internal error: ")) return;
    std::fprintf(stderr, "%.*s\n", static_cast<int>(text.size()), text.data());
    std::abort();
  }
  void flush_() override {}
};

class Environment : public testing::Environment {
  void SetUp() override { spdlog::default_logger()->sinks().push_back(std::make_shared<Strict>()); }
};

[[maybe_unused]] const testing::Environment* const kEnvironment =
    testing::AddGlobalTestEnvironment(new Environment);

}  // namespace
}  // namespace nfsrdma::test
