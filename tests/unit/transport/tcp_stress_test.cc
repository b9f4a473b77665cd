// SPDX-License-Identifier: Apache-2.0
// Four loops, each with a transport, and a server that replies in any order and with any fragments and cuts
// connections at random. Every call gets its own reply, complete and once. Under TSan this tests the data
// that threads share.
#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <atomic>
#include <list>
#include <random>

#include "tests/unit/transport/support/rig.h"

namespace nfsrdma::test {
namespace {

using rpc::Outcome;

// A call's arguments are the seed of the data and its size. The reply is read_results() of that pattern.
ByteVector answer_to(const ByteVector& call) {
  const uint32_t seed = word_at(call, kCallHeaderBytes);
  const uint32_t size = word_at(call, kCallHeaderBytes + 4);
  return reply(xid_of(call), read_results(pattern(size, seed), words({seed})));
}

class UnsteadyServer {
 public:
  UnsteadyServer(uint32_t seed, unsigned cut_one_in)
      : random_(seed), cut_one_in_(cut_one_in), thread_([this] { accept_all(); }) {}
  ~UnsteadyServer() {
    stop_ = true;
    thread_.join();
  }
  uint16_t port() const { return listener_.port(); }
  size_t cuts() const { return cuts_; }

 private:
  void accept_all() {
    std::list<std::thread> connections;
    while (!stop_) {
      if (!eventually([this] { return stop_ || !listener_.quiet(); }) || stop_) continue;
      connections.emplace_back([this, seed = static_cast<uint32_t>(random_()),
                                s = listener_.accept()]() mutable { serve(s, seed); });
    }
    for (std::thread& t : connections) t.join();
  }

  void serve(PeerSocket& s, uint32_t seed) {
    std::mt19937 random(seed);
    std::vector<ByteVector> held;
    while (const auto call = s.read_record()) {
      held.push_back(answer_to(*call));
      pollfd more{s.fd(), POLLIN, 0};
      if (held.size() < 1 + random() % 8 && ::poll(&more, 1, 0) > 0) continue;
      std::shuffle(held.begin(), held.end(), random);
      for (const ByteVector& answer : held) {
        const size_t fragment = random() % 3 == 0 ? 1 + random() % 5000 : 0;
        const ByteVector bytes = record(answer, fragment);
        const bool cut = cut_one_in_ != 0 && random() % cut_one_in_ == 0;
        if (!s.write(ConstBytes(bytes).first(cut ? random() % bytes.size() : bytes.size()))) return;
        if (cut) {
          ++cuts_;
          random() % 2 == 0 ? s.close() : s.reset();
          return;
        }
      }
      held.clear();
    }
  }

  Listener listener_;
  std::mt19937 random_;
  const unsigned cut_one_in_;
  std::atomic<bool> stop_{false};
  std::atomic<size_t> cuts_{0};
  std::thread thread_;
};

struct Totals {
  std::atomic<size_t> answered{0};
  std::atomic<size_t> wrong{0};
};

Task<> work(rpc::RpcTransport* t, BufferPool* pool, uint32_t seed, int calls, Totals* totals) {
  std::mt19937 random(seed);
  for (int i = 0; i < calls; ++i) {
    const auto data_seed = static_cast<uint32_t>(random());
    const size_t size = random() % 4 == 0 ? random() % 200'000 : random() % 300;
    rpc::Call c;
    c.op = "READ";
    c.head = call_head(words({data_seed, static_cast<uint32_t>(size)}));
    const bool with_sink = random() % 4 != 0;
    Slice destination;
    if (with_sink) {
      destination = pool->slice(std::max<size_t>(size, 1));
      c.sink = {destination, locate_read, kReadDataOffset};
    }
    const Outcome o = co_await t->call(c);
    const ByteVector want = pattern(size, data_seed);
    bool good = o.reply && o.reply->placed == with_sink &&
                word_at(o.reply->head, o.reply->head.size() - 4) == data_seed;
    if (good && with_sink) {
      good = o.reply->bulk_length == size && std::equal(want.begin(), want.end(), destination.bytes.begin());
    } else if (good) {
      good = std::equal(want.begin(), want.end(), o.reply->head.begin() + kReadDataOffset);
    }
    ++(good ? totals->answered : totals->wrong);
  }
}

void run_stress(unsigned loops, unsigned cut_one_in) {
  constexpr int kWorkers = 12;
  constexpr int kCalls = 60;
  UnsteadyServer server(loops * 1000 + cut_one_in, cut_one_in);
  BufferPool pool;
  Totals totals;
  {
    std::vector<std::unique_ptr<Rig>> rigs;
    for (unsigned i = 0; i < loops; ++i) {
      tcp::TcpOptions options = quick_options(server.port());
      options.send_fragment_bytes = i % 2 == 0 ? 0 : 13;
      rigs.push_back(std::make_unique<Rig>(options));
      rigs.back()->must_start();
    }
    for (unsigned i = 0; i < loops; ++i) {
      for (uint32_t w = 0; w < kWorkers; ++w) {
        rigs[i]->loop().spawn(work(&rigs[i]->transport(), &pool, i * 100 + w, kCalls, &totals));
      }
    }
    const size_t all = size_t{loops} * kWorkers * kCalls;
    // A status command also polls like this, from its own thread.
    EXPECT_TRUE(eventually([&] {
      for (const auto& rig : rigs) {
        const rpc::TransportStatus s = rig->status();
        EXPECT_LE(s.replies, s.calls);
      }
      return totals.answered + totals.wrong == all;
    }));
    EXPECT_EQ(totals.wrong, 0u);
    for (const auto& rig : rigs) {
      EXPECT_EQ(rig->status().bad_messages, 0u);
      EXPECT_EQ(rig->status().pending, 0u);
    }
  }
  EXPECT_EQ(pool.outstanding_bytes(), 0u);
  if (cut_one_in != 0) {
    EXPECT_GT(server.cuts(), 0u) << "the server cut nothing: the test tested nothing";
  }
}

TEST(TcpStress, OneLoopSteadyServer_EveryCallAnswered) {
  run_stress(1, 0);
}
TEST(TcpStress, OneLoopUnsteadyServer_EveryCallAnswered) {
  run_stress(1, 20);
}
TEST(TcpStress, FourLoopsUnsteadyServer_EveryCallAnswered) {
  run_stress(4, 20);
}

}  // namespace
}  // namespace nfsrdma::test
