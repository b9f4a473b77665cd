// SPDX-License-Identifier: Apache-2.0
#include "cli/server/server_steps.h"

#include <fmt/core.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>

#include "transport/rpc/call_message.h"
#include "xdr/nfs4/basic.h"
#include "xdr/record_mark.h"
#include "xdr/rpc.h"

namespace nfsrdma::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kLargestNullReply = 1024;

bool ready(const Fd& fd, short events, Clock::time_point deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
  pollfd entry{fd.get(), events, 0};
  return poll(&entry, 1, static_cast<int>(std::max<int64_t>(left, 0))) > 0;
}

// Receives one record of one or more fragments.
Outcome<ByteVector> receive_record(const Fd& fd, Clock::time_point deadline) {
  const auto take = [&](MutableBytes to) -> Outcome<> {
    size_t got = 0;
    while (got < to.size()) {
      const ssize_t n = recv(fd.get(), to.data() + got, to.size() - got, 0);
      if (n == 0) return step_failed("NULL: the server hung up");
      if (n > 0) {
        got += static_cast<size_t>(n);
      } else if (errno != EAGAIN && errno != EINTR) {
        return step_failed(fmt::format("NULL: {}", std::strerror(errno)));
      } else if (errno == EAGAIN && !ready(fd, POLLIN, deadline)) {
        return step_failed("NULL: no answer");
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
      return step_failed("NULL: the answer is not from an RPC server");
    const size_t before = record.size();
    record.resize(before + mark.length);
    if (auto done = take(MutableBytes(record).subspan(before)); !done)
      return tl::unexpected(std::move(done).error());
  }
  return record;
}

}  // namespace

Outcome<std::vector<net::Endpoint>> resolve_server(const client::ClientOptions& options) {
  addrinfo hints{};
  hints.ai_family = options.family == client::AddressFamily::kIpv4   ? AF_INET
                    : options.family == client::AddressFamily::kIpv6 ? AF_INET6
                                                                     : AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const int code = getaddrinfo(options.host.c_str(), std::to_string(options.port).c_str(), &hints, &list);
  if (code != 0) return step_failed(gai_strerror(code));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(list, &freeaddrinfo);
  std::vector<net::Endpoint> endpoints;
  for (const addrinfo* a = list; a != nullptr; a = a->ai_next) {
    net::Endpoint& endpoint = endpoints.emplace_back();
    std::memcpy(&endpoint.address, a->ai_addr, a->ai_addrlen);
    endpoint.length = a->ai_addrlen;
  }
  return endpoints;
}

Connecting connect_to(const net::Endpoint& endpoint, std::chrono::milliseconds limit) {
  Connecting out{Fd(socket(endpoint.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)), 0};
  if (!out.fd || connect(out.fd.get(), endpoint.get(), endpoint.length) != 0) out.error = errno;
  if (out.error != EINPROGRESS) return out;
  out.error = ETIMEDOUT;
  if (!ready(out.fd, POLLOUT, Clock::now() + limit)) return out;
  socklen_t size = sizeof out.error;
  getsockopt(out.fd.get(), SOL_SOCKET, SO_ERROR, &out.error, &size);
  return out;
}

Outcome<Result<>> call_null(const Fd& fd, uint32_t version, std::chrono::milliseconds limit) {
  ByteVector message(rpc::kRecordMarkBytes);
  xdr::Encoder x(message);
  if (!rpc::begin_call(x, nfs4::NFS4_PROGRAM, version, 0)) return step_failed("NULL: cannot be encoded");
  const auto mark =
      rpc::encode_record_mark({true, static_cast<uint32_t>(message.size() - rpc::kRecordMarkBytes)});
  std::copy(mark.begin(), mark.end(), message.begin());
  if (send(fd.get(), message.data(), message.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(message.size())) {
    return step_failed(fmt::format("NULL: {}", std::strerror(errno)));
  }
  const auto record = receive_record(fd, Clock::now() + limit);
  if (!record) return tl::unexpected(record.error());
  rpc::reply_header reply;
  xdr::Decoder decoder(*record);
  if (!decoder(reply)) return step_failed("NULL: the answer is not an RPC reply");
  return rpc::check(reply, "NULL");
}

}  // namespace nfsrdma::cli
