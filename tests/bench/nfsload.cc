// SPDX-License-Identifier: Apache-2.0
// usage: nfsload --op OP --path DIR [--version 3|4] [--server A] [--port N] [--mount-port N] [--file NAME]
//                [--size BYTES] [--block BYTES] [--depth N] [--count N] [--seed N]
// Prints one JSON object: operations, bytes, wall seconds and this process's CPU seconds.
#include "nfsload.h"

#include <poll.h>
#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>

namespace nfsload {

void fail(const std::string& what) {
  std::fprintf(stderr, "nfsload: %s\n", what.c_str());
  std::exit(1);
}

void run_until(rpc_context* rpc, const std::function<bool()>& finished) {
  while (!finished()) {
    pollfd pfd{rpc_get_fd(rpc), static_cast<short>(rpc_which_events(rpc)), 0};
    if (poll(&pfd, 1, 10000) <= 0) fail("the server has not answered for 10 s");
    if (rpc_service(rpc, pfd.revents) < 0) fail(std::string("connection lost: ") + rpc_get_error(rpc));
  }
}

namespace {

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) { return double(t.tv_sec) + double(t.tv_usec) * 1e-6; };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

Options parse(int argc, char** argv) {
  Options o;
  std::map<std::string, std::function<void(const std::string&)>> known{
      {"--server", [&](const std::string& v) { o.server = v; }},
      {"--port", [&](const std::string& v) { o.port = std::stoi(v); }},
      {"--mount-port", [&](const std::string& v) { o.mount_port = std::stoi(v); }},
      {"--path", [&](const std::string& v) { o.path = v; }},
      {"--version", [&](const std::string& v) { o.version = std::stoi(v); }},
      {"--op", [&](const std::string& v) { o.op = v; }},
      {"--file", [&](const std::string& v) { o.file = v; }},
      {"--size", [&](const std::string& v) { o.size = std::stoull(v); }},
      {"--block", [&](const std::string& v) { o.block = static_cast<uint32_t>(std::stoul(v)); }},
      {"--depth", [&](const std::string& v) { o.depth = static_cast<unsigned>(std::stoul(v)); }},
      {"--count", [&](const std::string& v) { o.count = std::stoull(v); }},
      {"--seed", [&](const std::string& v) { o.seed = std::stoull(v); }},
  };
  for (int i = 1; i < argc; i += 2) {
    auto option = known.find(argv[i]);
    if (option == known.end() || i + 1 == argc) fail(std::string("unknown option or no value: ") + argv[i]);
    option->second(argv[i + 1]);
  }
  const bool on_file = o.op == "read" || o.op == "write" || o.op == "randread";
  if (!on_file && o.op != "stat" && o.op != "create" && o.op != "smallread")
    fail("--op is missing or unknown");
  if (o.path.empty() || o.depth == 0 || o.block == 0) fail("--path, --depth and --block are needed");
  if (on_file && o.size < o.block) fail("--size is needed, at least one block");
  if (o.count == 0) o.count = on_file ? o.size / o.block : 0;
  if (o.count == 0) fail("--count is needed");
  return o;
}

// Keeps `depth` operations outstanding until all are done.
class Driver {
 public:
  explicit Driver(const Options& options) : options_(options), random_(options.seed) {
    auto done = [this](unsigned slot, uint64_t bytes) {
      bytes_ += bytes;
      ++done_;
      if (started_ < options_.count) start(slot);
    };
    protocol_ = options.version == 3 ? connect_v3(options, done) : connect_v4(options, done);
    if (on_file()) protocol_->open_file();
  }

  void run() {
    const double cpu_before = cpu_seconds();
    const auto begin = std::chrono::steady_clock::now();
    for (unsigned slot = 0; slot < options_.depth && started_ < options_.count; ++slot) start(slot);
    run_until(protocol_->rpc(), [this] { return done_ == options_.count; });
    if (options_.op == "write") protocol_->commit();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    const double cpu = cpu_seconds() - cpu_before;
    if ((options_.op == "read" || options_.op == "write") && bytes_ != options_.count * options_.block) {
      fail("short transfers: " + std::to_string(bytes_) + " bytes");
    }
    std::printf(
        "{\"op\": \"%s\", \"version\": %d, \"depth\": %u, \"block\": %u, \"operations\": %llu, \"bytes\": "
        "%llu, "
        "\"seconds\": %.6f, \"cpu_seconds\": %.6f}\n",
        options_.op.c_str(), options_.version, options_.depth, options_.block,
        static_cast<unsigned long long>(done_), static_cast<unsigned long long>(bytes_), seconds, cpu);
  }

 private:
  bool on_file() const {
    return options_.op == "read" || options_.op == "write" || options_.op == "randread";
  }

  void start(unsigned slot) {
    const uint64_t index = started_++;
    const uint64_t blocks = options_.size / options_.block;
    if (options_.op == "read") return protocol_->read(slot, index % blocks * options_.block, options_.block);
    if (options_.op == "write")
      return protocol_->write(slot, index % blocks * options_.block, options_.block);
    if (options_.op == "randread")
      return protocol_->read(slot, random_() % blocks * options_.block, options_.block);
    const std::string name = options_.file + std::to_string(index);
    if (options_.op == "stat") return protocol_->stat(slot, name);
    if (options_.op == "create") return protocol_->create(slot, name);
    protocol_->small_read(slot, name);
  }

  const Options& options_;
  std::mt19937_64 random_;
  std::unique_ptr<Protocol> protocol_;
  uint64_t started_ = 0;
  uint64_t done_ = 0;
  uint64_t bytes_ = 0;
};

}  // namespace
}  // namespace nfsload

int main(int argc, char** argv) {
  const nfsload::Options options = nfsload::parse(argc, argv);
  nfsload::Driver driver(options);
  driver.run();
  return 0;
}
