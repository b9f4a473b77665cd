// SPDX-License-Identifier: Apache-2.0
#include "cli/trace/trace.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cstring>

#include "cli/support/base64.h"
#include "cli/trace/pcapng.h"
#include "cli/trace/trace_sessions.h"

namespace nfsrdma::cli {
namespace {

ByteVector bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

// RFC 4648 section 10, "Test Vectors".
TEST(Base64, TestVectors) {
  for (const auto& [plain, encoded] :
       std::vector<std::pair<std::string, std::string>>{{"", ""},
                                                        {"f", "Zg=="},
                                                        {"fo", "Zm8="},
                                                        {"foo", "Zm9v"},
                                                        {"foob", "Zm9vYg=="},
                                                        {"fooba", "Zm9vYmE="},
                                                        {"foobar", "Zm9vYmFy"}}) {
    EXPECT_EQ(to_base64(bytes_of(plain)), encoded);
    EXPECT_EQ(from_base64(encoded), bytes_of(plain));
  }
}

TEST(Base64, WhatIsNone_IsRefused) {
  for (const char* text : {"Z", "Zg=", "Zg==Zg==", "Z===", "Zm9\n", "Zm-_", "===="}) {
    EXPECT_FALSE(from_base64(text)) << text;
  }
}

TEST(Base64, AnyBytes_ComeBack) {
  EXPECT_TRUE(rc::check([](const std::vector<uint8_t>& some) {
    ByteVector bytes(some.size());
    if (!some.empty()) std::memcpy(bytes.data(), some.data(), some.size());
    RC_ASSERT(from_base64(to_base64(bytes)) == bytes);
  }));
}

TraceRecord a_read() {
  TraceRecord r;
  r.operation = "READ";
  r.process = 42;
  r.command = "cat";
  r.path = "/dir/file";
  r.offset = 4096;
  r.size = 131072;
  r.took_ns = 1'500'000;
  return r;
}

TEST(TraceRecord, Json_ComesBack) {
  TraceRecord r = a_read();
  r.errnum = EIO;
  r.uid = 1000;
  r.new_path = "/else";
  r.at_us = 1'700'000'000'123'456;
  const TraceRecord back = trace_record_from_json(to_json(r));
  EXPECT_EQ(to_json(back), to_json(r));
  EXPECT_EQ(back.at_us, r.at_us);
  EXPECT_EQ(trace_line(back), trace_line(r));
}

TEST(TraceRecord, Line_SaysAll) {
  TraceRecord r = a_read();
  std::string line = trace_line(r);
  for (const char* word : {"READ", "1.500 ms", "OK", "cat[42]", "/dir/file", "131072 bytes at 4096"}) {
    EXPECT_NE(line.find(word), std::string::npos) << word << " in " << line;
  }
  r.errnum = ENOENT;
  r.process = 0;
  line = trace_line(r);
  EXPECT_NE(line.find("ENOENT"), std::string::npos);
  EXPECT_NE(line.find(" kernel "), std::string::npos);
}

TEST(TraceVerb, Filters) {
  const TraceRecord r = a_read();
  const auto takes = [&](auto change) {
    TraceVerb verb;
    change(verb);
    return wanted(verb, r);
  };
  EXPECT_TRUE(takes([](TraceVerb&) {}));
  EXPECT_TRUE(takes([](TraceVerb& v) { v.path = "/dir/*"; }));
  EXPECT_FALSE(takes([](TraceVerb& v) { v.path = "/other/*"; }));
  EXPECT_TRUE(takes([](TraceVerb& v) { v.process = "42"; }));
  EXPECT_FALSE(takes([](TraceVerb& v) { v.process = "4"; }));
  EXPECT_TRUE(takes([](TraceVerb& v) { v.process = "cat"; }));
  EXPECT_FALSE(takes([](TraceVerb& v) { v.failures = true; }));
}

class Sessions : public ::testing::Test {
 protected:
  static TraceSessions::Sources sources(fuse::OperationTracer& tracer,
                                        std::shared_ptr<MessageCapture> capture) {
    TraceSessions::Sources all;
    all.tracer = &tracer;
    all.path_of = [](const client::NodeRef&, const std::string& name) { return "/" + name; };
    all.capture = std::move(capture);
    return all;
  }
  asio::io_context context;
  fuse::OperationTracer tracer;
  std::shared_ptr<MessageCapture> capture = std::make_shared<MessageCapture>();
  TraceSessions sessions{context, sources(tracer, capture)};
};

TEST_F(Sessions, Operations_AreFetchedOnce) {
  const auto begun = sessions.answer({{"command", "trace"}, {"operations", {"READ"}}});
  ASSERT_TRUE(begun);
  fuse::TracedOperation done;
  done.operation = fuse::Operation::kRead;
  done.name = "f";
  tracer.answered(done);
  done.operation = fuse::Operation::kWrite;
  tracer.answered(done);
  const Json next{{"id", number_in(*begun, "id")}};
  const auto fetched = sessions.answer(next);
  ASSERT_TRUE(fetched);
  ASSERT_EQ((*fetched)["operations"].size(), 1u);
  EXPECT_EQ(trace_record_from_json((*fetched)["operations"][0]).path, "/f");
  EXPECT_TRUE((*sessions.answer(next))["operations"].empty());
}

TEST_F(Sessions, WhatThereIsNot_IsNamed) {
  const std::string refused = sessions.answer({{"operations", {"REED"}}}).error().text;
  EXPECT_NE(refused.find("there is no operation \"REED\"; there are lookup, "), std::string::npos) << refused;
  EXPECT_NE(refused.find(", read, "), std::string::npos) << refused;
  EXPECT_FALSE(sessions.answer({{"operations", {7}}}));
  EXPECT_FALSE(sessions.answer({{"id", 99u}}));
  TraceSessions of_version_3(context, sources(tracer, nullptr));
  EXPECT_NE(of_version_3.answer({{"messages", 1u}}).error().text.find("tcpdump"), std::string::npos);
}

TEST_F(Sessions, TheyAreBounded) {
  for (size_t i = 0; i < TraceSessions::kMost; ++i) EXPECT_TRUE(sessions.answer(Json::object()));
  EXPECT_FALSE(sessions.answer(Json::object()));
}

TEST_F(Sessions, OneCapturesMessages) {
  EXPECT_FALSE(capture->on());
  const auto begun = sessions.answer({{"messages", 1u}});
  ASSERT_TRUE(begun);
  EXPECT_TRUE(capture->on());
  EXPECT_FALSE(sessions.answer({{"messages", 1u}}));
  capture->message(
      {.sent = true, .at = {}, .protocol = "rdma", .local = "10.0.0.1:700", .peer = "10.0.0.2:20049"},
      bytes_of("call"));
  const auto fetched = sessions.answer({{"id", number_in(*begun, "id")}});
  ASSERT_TRUE(fetched);
  const auto message = captured_message_from_json((*fetched)["messages"][0]);
  ASSERT_TRUE(message);
  EXPECT_TRUE(message->sent);
  EXPECT_EQ(message->bytes, bytes_of("call"));
  EXPECT_EQ(message->protocol, "rdma");
}

TEST_F(Sessions, OneThatEnds_MakesRoomAtOnce) {
  const auto begun = sessions.answer({{"messages", 1u}});
  ASSERT_TRUE(begun);
  ASSERT_TRUE(sessions.answer({{"id", number_in(*begun, "id")}, {"end", 1u}}));
  EXPECT_FALSE(capture->on());
  EXPECT_EQ(sessions.size(), 0u);
  EXPECT_TRUE(sessions.answer({{"messages", 1u}}));
}

TEST(MessageCapture, WhatHasNoRoom_IsCounted) {
  MessageCapture capture;
  capture.message({}, ByteVector(10));
  capture.start();
  capture.message({}, ByteVector(MessageCapture::kMostBytes));
  capture.message({}, ByteVector(1));
  EXPECT_EQ(capture.take_lost(), 1u);
  const auto taken = capture.take(1);
  ASSERT_EQ(taken.size(), 1u) << "one that is longer than asked for, and none from before start()";
  capture.message({}, ByteVector(1));
  EXPECT_EQ(capture.take(1).size(), 1u);
}

uint32_t word_at(const ByteVector& bytes, size_t at) {
  uint32_t value = 0;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

// draft-ietf-opsawg-pcapng section 3.1: "The total length of this block, in octets ... MUST be a multiple of
// 4". The length stands at both ends of each block.
TEST(Pcapng, Blocks_FollowEachOther) {
  Pcapng format("test");
  ByteVector file = format.header();
  CapturedMessage message{true, 1, "tcp", "127.0.0.1:700", "127.0.0.1:2049", ByteVector(200'001)};
  for (const ByteVector& more : {format.add(message), format.add(message)})
    file.insert(file.end(), more.begin(), more.end());
  message = {false, 2, "rdma", "[fd00::1%eth0]:700", "[fd00::2]:20049", ByteVector(5)};
  const ByteVector more = format.add(message);
  file.insert(file.end(), more.begin(), more.end());
  std::vector<uint32_t> types;
  for (size_t at = 0; at < file.size();) {
    ASSERT_LE(at + 12, file.size());
    const uint32_t length = word_at(file, at + 4);
    ASSERT_EQ(length % 4, 0u);
    ASSERT_LE(at + length, file.size());
    EXPECT_EQ(word_at(file, at + length - 4), length);
    types.push_back(word_at(file, at));
    at += length;
  }
  const std::vector<uint32_t> expected{0x0A0D0D0A, 1, 6, 6, 6, 6, 6, 6, 6, 6, 1, 6};
  EXPECT_EQ(types, expected) << "a message of 200,000 bytes is four segments";
}

}  // namespace
}  // namespace nfsrdma::cli
