// SPDX-License-Identifier: Apache-2.0
#include "cli/probe.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <asio/post.hpp>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <future>
#include <memory>

#include "cli/explain.h"
#include "cli/log_setup.h"
#include "cli/options.h"
#include "cli/probe_rdma.h"
#include "cli/translate.h"
#include "client/nfs4/nfs4_filesystem.h"
#include "client/no_front_end.h"
#include "transport/fabric/verbs/verbs.h"
#include "transport/rpc/call_message.h"
#include "transport/runtime/fd.h"
#include "transport/runtime/user_ids.h"
#include "transport/tcp/endpoint.h"
#include "xdr/record_mark.h"
#include "xdr/rpc.h"

namespace nfsrdma::cli {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

// A person waits. Connecting and the NULL procedure are one round trip each; a session may have to wait for a
// server's grace period to be told about.
constexpr std::chrono::seconds kRoundTrip{10};
constexpr std::chrono::seconds kSession{30};
constexpr size_t kMostEntries = 200;
constexpr uint32_t kNfsProgram = 100003;
constexpr size_t kLargestNullReply = 1024;

class Stopwatch {
 public:
  std::string text() const {
    return fmt::format("{:.1f} ms", std::chrono::duration<double, std::milli>(Clock::now() - start_).count());
  }

 private:
  Clock::time_point start_ = Clock::now();
};

void step(std::string_view name, const std::string& text, const Stopwatch& watch) {
  fmt::print("{:<9} {}  ({})\n", name, printable(text), watch.text());
  std::fflush(stdout);
}

tl::unexpected<Failure> failed(std::string text) {
  return refuse(ToolExit::kFailed, std::move(text));
}

// What the user can look at next, by the step that failed.
std::string resolve_advice(const client::ClientOptions& o) {
  return fmt::format("run 'getent ahosts {}'", o.host);
}
std::string connect_advice(const client::ClientOptions& o) {
  return fmt::format(
      "see that {} runs and listens on port {} ('ss -ltn' there), or give another with -o port=", o.host,
      o.port);
}
std::string rdma_advice(const client::ClientOptions& o) {
  return fmt::format("see that {} offers NFS over RDMA on port {}, or try TCP with -o proto=tcp", o.host,
                     o.port);
}
std::string null_advice(const client::ClientOptions& o) {
  return fmt::format("see that port {} is that of the NFS server, or give another with -o port=", o.port);
}
std::string session_advice(const client::ClientOptions& o, const Error& error) {
  // The root of a server's name space lists its exports.
  if (o.export_path != "/" && error.layer == Layer::kNfs) return exports_advice(o);
  return fmt::format("see what the log of {} says", o.host);
}

bool ready(const Fd& fd, short events, Clock::time_point deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
  pollfd entry{fd.get(), events, 0};
  return poll(&entry, 1, static_cast<int>(std::max<int64_t>(left, 0))) > 0;
}

// 0 or an errno.
int connect_to(const Fd& fd, const tcp::Endpoint& endpoint) {
  if (connect(fd.get(), endpoint.get(), endpoint.length) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  if (!ready(fd, POLLOUT, Clock::now() + kRoundTrip)) return ETIMEDOUT;
  int error = 0;
  socklen_t size = sizeof error;
  getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  return error;
}

Outcome<std::vector<tcp::Endpoint>> resolve(const client::ClientOptions& options) {
  const Stopwatch watch;
  addrinfo hints{};
  hints.ai_family = options.family == client::AddressFamily::kIpv4   ? AF_INET
                    : options.family == client::AddressFamily::kIpv6 ? AF_INET6
                                                                     : AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const int code = getaddrinfo(options.host.c_str(), std::to_string(options.port).c_str(), &hints, &list);
  if (code != 0) {
    return failed(
        fmt::format("resolve: {}: {}; {}", options.host, gai_strerror(code), resolve_advice(options)));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(list, &freeaddrinfo);
  std::vector<tcp::Endpoint> endpoints;
  std::string text = options.host + ":";
  for (const addrinfo* a = list; a != nullptr; a = a->ai_next) {
    tcp::Endpoint& endpoint = endpoints.emplace_back();
    std::memcpy(&endpoint.address, a->ai_addr, a->ai_addrlen);
    endpoint.length = a->ai_addrlen;
    text += " " + to_string(endpoint);
  }
  step("resolve", text, watch);
  return endpoints;
}

// The first address that answers; all of them are tried, so that a bad one is seen.
Outcome<Fd> connect_any(const client::ClientOptions& options, const std::vector<tcp::Endpoint>& endpoints) {
  Fd connected;
  std::string last;
  for (const tcp::Endpoint& endpoint : endpoints) {
    const Stopwatch watch;
    Fd fd(socket(endpoint.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const int error = fd ? connect_to(fd, endpoint) : errno;
    const std::string text =
        fmt::format("{}: {}", to_string(endpoint), error == 0 ? "connected" : std::strerror(error));
    step("connect", text, watch);
    if (error != 0) last = text;
    if (error == 0 && !connected) connected = std::move(fd);
  }
  if (!connected) return failed(fmt::format("connect: {}; {}", last, connect_advice(options)));
  return connected;
}

// One record, of one or more fragments.
Outcome<ByteVector> receive_record(const Fd& fd) {
  const auto deadline = Clock::now() + kRoundTrip;
  const auto take = [&](MutableBytes to) -> Outcome<> {
    size_t got = 0;
    while (got < to.size()) {
      const ssize_t n = recv(fd.get(), to.data() + got, to.size() - got, 0);
      if (n == 0) return failed("NULL: the server hung up");
      if (n > 0) {
        got += static_cast<size_t>(n);
      } else if (errno != EAGAIN && errno != EINTR) {
        return failed(fmt::format("NULL: {}", std::strerror(errno)));
      } else if (errno == EAGAIN && !ready(fd, POLLIN, deadline)) {
        return failed("NULL: no answer");
      }
    }
    return {};
  };
  ByteVector record;
  for (rpc::RecordMark mark{false, 0}; !mark.last;) {
    std::array<std::byte, rpc::kRecordMarkBytes> bytes{};
    if (auto done = take(bytes); !done) return tl::unexpected(std::move(done).error());
    mark = rpc::decode_record_mark(bytes);
    if (mark.length > kLargestNullReply - record.size())
      return failed("NULL: the answer is not from an RPC server");
    const size_t before = record.size();
    record.resize(before + mark.length);
    if (auto done = take(MutableBytes(record).subspan(before)); !done)
      return tl::unexpected(std::move(done).error());
  }
  return record;
}

// Result<>: what the server said to it.
Outcome<Result<>> call_null(const Fd& fd, uint32_t version) {
  ByteVector message(rpc::kRecordMarkBytes);
  xdr::Encoder x(message);
  if (!rpc::begin_call(x, kNfsProgram, version, 0)) return failed("NULL: cannot be encoded");
  const auto mark =
      rpc::encode_record_mark({true, static_cast<uint32_t>(message.size() - rpc::kRecordMarkBytes)});
  std::copy(mark.begin(), mark.end(), message.begin());
  if (send(fd.get(), message.data(), message.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(message.size())) {
    return failed(fmt::format("NULL: {}", std::strerror(errno)));
  }
  const auto record = receive_record(fd);
  if (!record) return tl::unexpected(record.error());
  rpc::reply_header reply;
  xdr::Decoder decoder(*record);
  if (!decoder(reply)) return failed("NULL: the answer is not an RPC reply");
  return rpc::check(reply, "NULL");
}

// An old server, which a mount without vers= reaches all the same.
Outcome<bool> only_version3(const Fd& fd) {
  const Stopwatch watch;
  const auto old = call_null(fd, 3);
  if (!old || !*old) return false;
  step("NULL", "NFS version 3 answers, and version 4 does not", watch);
  return true;
}

// False: it speaks version 3 only.
Outcome<bool> find_version(const Fd& fd) {
  const Stopwatch watch;
  const auto answer = call_null(fd, 4);
  if (!answer) return tl::unexpected(answer.error());
  if (*answer) {
    step("NULL", "NFS version 4 answers", watch);
    return true;
  }
  const Error& why = answer->error();
  if (why.errnum == EPROTONOSUPPORT) {
    if (const auto old = only_version3(fd); old && *old) return false;
  }
  return failed(describe(why));
}

template <class T>
using Promise = std::shared_ptr<std::promise<T>>;

Task<> mount_root(client::Filesystem& filesystem, client::FrontEnd* front_end,
                  Promise<Result<client::Entry>> out) {
  Task<Result<client::Entry>> task = filesystem.mount(front_end);
  Result<client::Entry> root = co_await std::move(task);
  out->set_value(std::move(root));
}

struct Listing {
  std::vector<client::DirectoryEntry> entries;
  bool more = false;
};

Task<Result<Listing>> read_directory(client::Filesystem& filesystem, client::RequestContext context,
                                     client::NodeRef node) {
  Task<Result<client::OpenDirectoryReply>> opening = filesystem.opendir(context, node);
  Result<client::OpenDirectoryReply> opened = co_await std::move(opening);
  if (!opened) co_return fail(std::move(opened.error()));
  Listing listing;
  uint64_t offset = 0;
  Result<> failure;
  while (!listing.more) {
    Task<Result<client::DirectoryPage>> reading =
        filesystem.readdir(context, opened->directory, offset, 65536, true);
    Result<client::DirectoryPage> page = co_await std::move(reading);
    if (!page) failure = fail(std::move(page.error()));
    if (!page || page->entries.empty()) break;
    for (client::DirectoryEntry& entry : page->entries) {
      offset = entry.next;
      if (entry.name == "." || entry.name == "..") continue;
      listing.more = listing.entries.size() == kMostEntries;
      if (!listing.more) listing.entries.push_back(std::move(entry));
    }
  }
  Task<> closing = filesystem.releasedir(opened->directory);
  co_await std::move(closing);
  if (!failure) co_return fail(std::move(failure.error()));
  co_return listing;
}

Task<> list_root(client::Filesystem& filesystem, client::RequestContext context, client::NodeRef node,
                 Promise<Result<Listing>> out) {
  Task<Result<Listing>> task = read_directory(filesystem, std::move(context), std::move(node));
  Result<Listing> listing = co_await std::move(task);
  out->set_value(std::move(listing));
}

Task<> end_session(client::Filesystem& filesystem, Promise<bool> out) {
  Task<bool> task = filesystem.unmount(1s);
  const bool clean = co_await std::move(task);
  out->set_value(clean);
}

rpc::CredentialPtr own_credential() {
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  std::vector<gid_t> groups(static_cast<size_t>(std::max(getgroups(0, nullptr), 0)));
  const int n = getgroups(static_cast<int>(groups.size()), groups.data());
  groups.resize(static_cast<size_t>(std::max(n, 0)));
  std::vector<uint32_t> outer(groups.begin(), groups.end());
  const UserIds ids = UserIds::of_this_process();
  ids.make_outer(outer);
  return std::make_shared<const rpc::Credential>(host, ids.outer_user(geteuid()), ids.outer_group(getegid()),
                                                 std::move(outer));
}

char type_letter(uint32_t mode) {
  if (S_ISDIR(mode)) return 'd';
  if (S_ISLNK(mode)) return 'l';
  return S_ISREG(mode) ? '-' : '?';
}

void print_listing(const Listing& listing) {
  for (const client::DirectoryEntry& entry : listing.entries) {
    fmt::print("          {} {}\n", type_letter(entry.type), printable(entry.name));
  }
  if (listing.more) fmt::print("          ... more than {}\n", kMostEntries);
}

// A session like a mount's, on one loop of its own.
class Probe {
 public:
  Probe(std::string program, std::string name, const client::ClientOptions& options)
      : program_(std::move(program)),
        name_(std::move(name)),
        options_(options),
        filesystem_(std::make_unique<client::Nfs4Filesystem>(loops_, pool_, options)) {
    loops_.start();
  }
  ~Probe() {
    auto ended = std::make_shared<std::promise<bool>>();
    auto result = ended->get_future();
    loops_[0].spawn(end_session(*filesystem_, ended));
    result.wait();
    loops_.stop_and_join();
  }

  Outcome<> run() {
    const Stopwatch watch;
    auto promise = std::make_shared<std::promise<Result<client::Entry>>>();
    auto answer = promise->get_future();
    loops_[0].spawn(mount_root(*filesystem_, &front_end_, promise));
    // The attempt cannot be called off, and the destructor would wait for it.
    if (answer.wait_for(kSession) != std::future_status::ready)
      give_up(operation_under_way(filesystem_->statistics()));
    const Result<client::Entry> root = answer.get();
    if (!root)
      return failed(fmt::format("{}; {}", describe(root.error()), session_advice(options_, root.error())));
    print_session(watch);
    return list(root->node);
  }

 private:
  // Without the destructor, which waits for what the server does not answer.
  [[noreturn]] void give_up(std::string_view operation) const {
    std::_Exit(report(program_, Failure(ToolExit::kFailed,
                                        fmt::format("{}: {}: no answer within {} s; {}", name_, operation,
                                                    kSession.count(), session_advice(options_, {})))));
  }

  void print_session(const Stopwatch& watch) const {
    const client::Statistics statistics = filesystem_->statistics();
    const client::SessionStatistics& s = statistics.session;
    step(
        "session",
        fmt::format("{} slots, {} operations and {} bytes in a request, lease {} s, back channel {}", s.slots,
                    s.max_operations, s.max_request_bytes, s.lease_seconds, s.back_channel ? "up" : "down"),
        watch);
    if (!s.server_implementation.empty())
      fmt::print("{:<9} {}\n", "server", printable(s.server_implementation));
    if (!s.server_owner.empty()) fmt::print("{:<9} {}\n", "owner", printable(s.server_owner));
    fmt::print("{:<9} rsize {}, wsize {}\n", "transfer", s.rsize, s.wsize);
  }

  Outcome<> list(const client::NodeRef& root) {
    const Stopwatch watch;
    auto promise = std::make_shared<std::promise<Result<Listing>>>();
    auto answer = promise->get_future();
    loops_[0].spawn(list_root(*filesystem_, {own_credential(), nullptr}, root, promise));
    if (answer.wait_for(kSession) != std::future_status::ready) give_up("READDIR");
    const Result<Listing> listing = answer.get();
    if (!listing)
      return failed(
          fmt::format("{}; {}", describe(listing.error()), session_advice(options_, listing.error())));
    step("list", fmt::format("{}: {} entries", options_.export_path, listing->entries.size()), watch);
    print_listing(*listing);
    return {};
  }

  const std::string program_;
  const std::string name_;  // of the server, as given
  const client::ClientOptions options_;
  LoopPool loops_{1};
  BufferPool pool_;
  client::NoFrontEnd front_end_;
  std::unique_ptr<client::Filesystem> filesystem_;
};

// What is tried: each transport that a mount with the same options may take.
struct Wanted {
  std::vector<client::ClientOptions> rdma;  // through a device, in software
  std::optional<client::ClientOptions> tcp;
};

Outcome<Wanted> probe_options(const ProbeVerb& verb) {
  const auto source = parse_server(verb.server);
  if (!source) return refuse(ToolExit::kUsage, source.error().text);
  std::vector<OptionLayer> layers;
  for (const RawOption& option : verb.options) layers.push_back({OptionOrigin::kCommandLine, {}, option});
  auto parsed = parse_options(layers, false);
  if (!parsed) return refuse(ToolExit::kUsage, parsed.error().text);
  if (auto done = check_options(*parsed, *source); !done) return refuse(ToolExit::kUsage, done.error().text);
  if (parsed->values.major_version == 3)
    return refuse(ToolExit::kUsage, "probe speaks version 4; " + probe_advice(*source, parsed->values));
  const bool root = geteuid() == 0;
  const auto over = [&](Transport transport) {
    MountOptions options = parsed->values;
    options.transport = transport;
    decide_reserved_port(options);
    return make_client_options(options, *source, root);
  };
  Wanted wanted;
  if (parsed->values.may_use_rdma_device(fabric::verbs::missing({}).empty())) {
    wanted.rdma.push_back(over(Transport::kRdma));
    wanted.rdma.back().transport = client::TransportKind::kRdmaDevice;
  }
  if (parsed->values.may_use_software_rdma()) wanted.rdma.push_back(over(Transport::kRdma));
  if (parsed->values.transport != Transport::kRdma) wanted.tcp = over(Transport::kTcp);
  return wanted;
}

Outcome<> try_rdma(const client::ClientOptions& options) {
  const Stopwatch watch;
  const auto found = probe_rdma(options);
  step("rdma", found ? *found : found.error().text, watch);
  if (!found) return failed(fmt::format("{}; {}", found.error().text, rdma_advice(options)));
  return {};
}

// False: reached, and it speaks version 3 only.
Outcome<bool> try_tcp(const client::ClientOptions& options, const std::vector<tcp::Endpoint>& endpoints) {
  const auto connection = connect_any(options, endpoints);
  if (!connection) return tl::unexpected(connection.error());
  auto found = find_version(*connection);
  if (!found) found.error().text += "; " + null_advice(options);
  return found;
}

// What a mount of such a server is.
Outcome<> show_version3(const std::string& host) {
  fmt::print("{:<9} mount it as any other; its locks then exclude programs of this machine only\n",
             "version 3");
  fmt::print("{:<9} 'showmount -e {}' lists them\n", "exports", printable(host));
  return {};
}

// Every rung is shown; the session is made over the first that is there.
Outcome<> probe(const std::string& program, const std::string& name, const Wanted& wanted) {
  const auto endpoints = resolve(wanted.tcp ? *wanted.tcp : wanted.rdma.front());
  if (!endpoints) return tl::unexpected(endpoints.error());
  Outcome<> rdma = failed("");
  size_t used = 0;
  for (size_t i = 0; i < wanted.rdma.size() && !rdma; ++i) rdma = try_rdma(wanted.rdma[used = i]);
  if (!wanted.tcp && !rdma) return rdma;
  if (wanted.tcp) {
    const auto tcp = try_tcp(*wanted.tcp, *endpoints);
    if (!tcp && !rdma) return tl::unexpected(tcp.error());
    if (tcp && !*tcp && !rdma) return show_version3(wanted.tcp->host);
    if (!tcp) fmt::print("{:<9} {}\n", "tcp", printable(tcp.error().text));
  }
  return Probe(program, name, rdma ? wanted.rdma[used] : *wanted.tcp).run();
}

}  // namespace

int run_probe(const std::string& program, const ProbeVerb& verb) {
  const ProcessLog log;
  set_log_level(LogLevel::kError);
  const auto wanted = probe_options(verb);
  if (!wanted) return report(program, wanted.error());
  const auto done = probe(program, verb.server, *wanted);
  if (done) return static_cast<int>(ToolExit::kOk);
  return report(program,
                Failure(done.error().exit_code, fmt::format("{}: {}", verb.server, done.error().text)));
}

}  // namespace nfsrdma::cli
