// SPDX-License-Identifier: Apache-2.0
// Random COMPOUNDs over RPC-over-RDMA, in both versions and over every fabric, on files in memory. Whatever
// the thresholds, the credits and the moment at which a connection ends, the results must be those of the
// model.
//
// The client's end is that of a mount: CompoundBuilder, the bounds of replies, the transport. The server is a
// Responder and a few lines that execute SEQUENCE, PUTFH, READ, WRITE, CREATE of a symbolic link, and
// READLINK.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <future>
#include <map>
#include <random>
#include <set>

#include "client/nfs4/session/compound.h"
#include "tests/unit/fabric/support/fabrics.h"
#include "tests/unit/rdma/support/rdma_rig.h"
#include "xdr/rpc.h"

namespace nfsrdma::test {
namespace {

using rdma::Versions;
using Random = std::mt19937;

constexpr size_t kMostBytes = 200'000;  // of a file, a READ or a WRITE

size_t below(Random& random, size_t n) {
  return std::uniform_int_distribution<size_t>(0, n - 1)(random);
}
// Gives small and large sizes equally often.
size_t some_size(Random& random, size_t most) {
  return 1 + below(random, size_t{1} << below(random, static_cast<size_t>(std::bit_width(most))));
}

nfs4::nfs_fh4 handle_of(uint32_t lane) {
  return nfs4::nfs_fh4(pattern(16, lane));
}

struct File {
  ByteVector data;
  std::string link;

  void write(size_t offset, ConstBytes bytes) {
    data.resize(std::max(data.size(), offset + bytes.size()));
    std::copy(bytes.begin(), bytes.end(), data.begin() + static_cast<ptrdiff_t>(offset));
  }
  ConstBytes read(size_t offset, size_t count) const {
    if (offset >= data.size()) return {};
    return ConstBytes(data).subspan(offset, std::min(count, data.size() - offset));
  }
};

// Executes the calls and replies, on its loop; sometimes later than to a later call, with other credits, or
// by ending the connection.
class ModelServer {
 public:
  ModelServer(Loop& loop, uint32_t credits, uint32_t seed) : loop_(loop), credits_(credits), random_(seed) {}

  void operator()(TestServer::Connection& c, ByteVector message) {
    if (c.closed || ended(c)) return;
    if (below(random_, 60) == 0) return end(c);
    const bool executed_in_vain = below(random_, 60) == 0;
    auto [answer, items] = execute(message);
    if (executed_in_vain) return end(c);
    if (below(random_, 4) == 0) c.responder->grant(static_cast<uint32_t>(below(random_, credits_ + 1)));
    if (below(random_, 3) != 0) return c.responder->send(std::move(answer), items);
    loop_.post([this, &c, answer = std::move(answer), items = items] {
      if (!c.closed && !ended(c)) c.responder->send(answer, items);
    });
  }
  // True if the model ended the connection, and not an end of the transport.
  bool ended(const TestServer::Connection& c) const { return ended_.contains(&c); }

 private:
  using Items = std::vector<rpc::BulkPlace>;

  void end(TestServer::Connection& c) {
    ended_.insert(&c);
    c.responder->close({});
  }

  std::pair<ByteVector, Items> execute(const ByteVector& message) {
    xdr::Decoder x{ConstBytes(message)};
    rpc::call_header header;
    nfs4::COMPOUND4args args;
    EXPECT_TRUE(x(header) && x(args)) << x.failure();
    nfs4::COMPOUND4res results;
    Items items;
    File* current = nullptr;
    for (const nfs4::nfs_argop4& arg : args.argarray) results.resarray.push_back(execute(arg, current));
    ByteVector answer = reply(static_cast<uint32_t>(header.xid));
    xdr::Encoder out(answer);
    EXPECT_TRUE(out(results));
    const auto* read = std::get_if<nfs4::READ4res>(&results.resarray.back().op);
    if (read != nullptr && !read->resok4.data.empty()) {
      const size_t size = read->resok4.data.size();
      items.push_back({answer.size() - xdr_padded(size), size});
    }
    return {std::move(answer), std::move(items)};
  }

  nfs4::nfs_resop4 execute(const nfs4::nfs_argop4& arg, File*& current) {
    using namespace nfs4;
    if (std::holds_alternative<SEQUENCE4args>(arg.op)) return {SEQUENCE4res{}};
    if (const auto* put = std::get_if<PUTFH4args>(&arg.op)) {
      current = &files_[std::string(as_string_view(put->object.bytes()))];
      return {PUTFH4res{}};
    }
    if (const auto* read = std::get_if<READ4args>(&arg.op)) {
      READ4res res;
      res.resok4.data = current->read(read->offset, read->count);
      res.resok4.eof = read->offset + res.resok4.data.size() >= current->data.size();
      return {res};
    }
    if (const auto* write = std::get_if<WRITE4args>(&arg.op)) {
      current->write(write->offset, write->data);
      WRITE4res res;
      res.resok4.count = static_cast<uint32_t>(write->data.size());
      return {res};
    }
    if (const auto* create = std::get_if<CREATE4args>(&arg.op)) {
      current->link = create->objtype.linkdata;
      return {CREATE4res{}};
    }
    READLINK4res res;
    EXPECT_TRUE(std::holds_alternative<READLINK4args>(arg.op));
    res.resok4.link = current->link;
    return {res};
  }

  Loop& loop_;
  const uint32_t credits_;  // maximum grant
  Random random_;
  std::map<std::string, File> files_;
  std::set<const TestServer::Connection*> ended_;
};

// COMPOUNDs one after the other, on its own file.
class Lane {
 public:
  Lane(Client& client, uint32_t number, uint32_t seed) : client_(client), number_(number), random_(seed) {}

  // Returns the first error; empty: none.
  std::string run(int steps) {
    for (int i = 0; i < steps && wrong_.empty(); ++i) {
      switch (below(random_, 6)) {
        case 0:
        case 1: read(); break;
        case 2: write(1); break;
        case 3: write(2 + below(random_, 2)); break;
        case 4: make_link(); break;
        default: read_link();
      }
    }
    return wrong_;
  }

 private:
  struct OnHandle : client::nfs4::CompoundBuilder {
    OnHandle(const rpc::Credential& credential, const nfs4::nfs_fh4& handle)
        : CompoundBuilder(credential, "TEST") {
      putfh(handle);
    }
  };
  OnHandle compound() { return {credential_, handle_of(number_)}; }

  std::optional<client::nfs4::CompoundReply> run(client::nfs4::CompoundBuilder& b, const Slice& sink = {}) {
    if (!b.ok()) return fail("it cannot be encoded");
    const client::nfs4::SlotTicket ticket;
    rpc::Outcome outcome = client_.call(b.finish(&ticket, false)).get();
    if (!outcome.reply) return fail(describe(outcome.reply.error()));
    auto reply = client::nfs4::CompoundReply::parse(*std::move(outcome.reply), sink, "TEST", true);
    if (!reply) return fail(describe(reply.error()));
    if (!reply->expect<nfs4::PUTFH4res>()) return fail("PUTFH");
    return *std::move(reply);
  }
  std::nullopt_t fail(std::string what) {
    wrong_ = std::move(what);
    return std::nullopt;
  }

  void read() {
    const Slice sink = client_.pool().slice(some_size(random_, kMostBytes));
    nfs4::READ4args args;
    args.offset = below(random_, model_.data.size() + 10);
    args.count = static_cast<uint32_t>(sink.size());
    auto b = compound();
    b.add(args).expect_read(sink);
    auto reply = run(b, sink);
    if (!reply) return;
    auto res = reply->take<nfs4::READ4res>();
    if (!res) return void(fail("READ: " + describe(res.error())));
    if (!std::ranges::equal(res->resok4.data, model_.read(args.offset, args.count)))
      fail("READ: other bytes");
  }

  void write(size_t pieces) {
    std::vector<ByteVector> data;
    auto b = compound();
    for (size_t i = 0; i < pieces; ++i) {
      data.push_back(pattern(some_size(random_, kMostBytes / pieces), static_cast<uint32_t>(random_())));
      nfs4::WRITE4args args;
      args.offset = below(random_, std::min(model_.data.size() + 10, kMostBytes));
      Slice memory = client_.pool().slice(data.back().size());
      std::copy(data.back().begin(), data.back().end(), memory.bytes.begin());
      args.data = memory.bytes;
      b.add(args).keep(memory);
      model_.write(args.offset, data.back());
    }
    auto reply = run(b);
    for (size_t i = 0; reply && i < pieces; ++i) {
      auto res = reply->take<nfs4::WRITE4res>();
      if (!res || res->resok4.count != data[i].size()) return void(fail("WRITE"));
    }
  }

  void make_link() {
    model_.link = std::string(some_size(random_, 20'000), static_cast<char>('a' + below(random_, 26)));
    nfs4::CREATE4args args;
    args.objtype.type = nfs4::NF4LNK;
    args.objtype.linkdata = model_.link;
    args.objname = "link";
    auto b = compound();
    b.add(args);
    auto reply = run(b);
    if (reply && !reply->expect<nfs4::CREATE4res>()) fail("CREATE");
  }

  // Some links are longer than the client's assumption, PATH_MAX.
  void read_link() {
    auto b = compound();
    b.add(nfs4::READLINK4args{});
    auto reply = run(b);
    if (!reply) return;
    auto res = reply->take<nfs4::READLINK4res>();
    if (!res || res->resok4.link != model_.link) fail("READLINK");
  }

  Client& client_;
  const uint32_t number_;
  Random random_;
  const rpc::Credential credential_{"test", 0, 0, {}};
  File model_;
  std::string wrong_;
};

void random_compounds(const FabricCase& fabric, Versions versions) {
  const Wires wires{fabric.make, fabric.address, fabric.pool};
  rdma::ResponderOptions served;
  served.credits = *rc::gen::inRange<uint32_t>(1, 33);
  served.inline_bytes = *rc::gen::element<size_t>(1024, 4096, 8192);
  served.use_every_reply_chunk = *rc::gen::arbitrary<bool>();
  served.invalidate = *rc::gen::arbitrary<bool>();
  LoopThread there;
  ModelServer model(*there, served.credits, *rc::gen::arbitrary<uint32_t>());
  TestServer server{*there, served, [&model](auto& c, ByteVector m) { model(c, std::move(m)); }, wires};
  rdma::RdmaOptions asked = quick_rdma(server.port(), versions);
  asked.host = fabric.address;
  asked.credits = *rc::gen::inRange<uint32_t>(1, 33);
  asked.inline_bytes = *rc::gen::element<size_t>(1024, 4096, 8192);
  asked.ddp_threshold = *rc::gen::element<size_t>(1, 1024, 16384, SIZE_MAX);
  LoopThread here;
  Client client{*here, asked, {}, nullptr, wires};
  RC_ASSERT(client.start().has_value());
  const auto lanes = *rc::gen::inRange<uint32_t>(1, 9);
  const auto seed = *rc::gen::arbitrary<uint32_t>();
  std::vector<std::future<std::string>> ends;
  for (uint32_t lane = 0; lane < lanes; ++lane)
    ends.push_back(std::async(std::launch::async,
                              [&client, lane, seed] { return Lane(client, lane, seed + lane).run(25); }));
  std::string wrong;
  for (std::future<std::string>& end : ends) wrong += end.get();
  RC_ASSERT(wrong == std::string());
  // No end closed a connection because of the other end's behaviour, e.g. too many calls for its credits.
  const auto offended = call_on(*there, [&] {
    std::vector<std::string> reasons;
    for (const auto& c : server.connections())
      if (c->closed && !model.ended(*c)) reasons.push_back(c->reason);
    return reasons;
  });
  RC_ASSERT(offended == std::vector<std::string>());
}

class Compounds : public testing::TestWithParam<FabricCase> {
 protected:
  void SetUp() override {
    if (!GetParam().lacking.empty()) GTEST_SKIP() << GetParam().lacking;
  }
};

TEST_P(Compounds, OverVersion1_AreTheModels) {
  ASSERT_TRUE(rc::check("version 1", [] { random_compounds(GetParam(), Versions::kOnly1); }));
}

TEST_P(Compounds, OverVersion2_AreTheModels) {
  ASSERT_TRUE(rc::check("version 2", [] { random_compounds(GetParam(), Versions::kOnly2); }));
}

INSTANTIATE_TEST_SUITE_P(Fabrics, Compounds, testing::ValuesIn(fabrics()), name_of);

}  // namespace
}  // namespace nfsrdma::test
