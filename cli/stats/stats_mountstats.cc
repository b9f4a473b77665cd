// SPDX-License-Identifier: Apache-2.0
// The format of /proc/self/mountstats. So `mountstats -f FILE` and `mountstats iostat -f FILE` of nfs-common
// read our mounts like the kernel's. Columns that this client does not count are 0.
#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <utility>

#include "cli/stats/snapshot.h"

namespace nfsrdma::cli {
namespace {

using Out = std::back_insert_iterator<std::string>;

// The kernel's escapes for names: the reader splits at blanks.
std::string escape_blanks(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == ' ' || c == '\t' || c == '\n' || c == '\\') {
      fmt::format_to(Out(out), "\\{:03o}", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  return out;
}

uint64_t count(const Snapshot& s, std::initializer_list<std::string_view> names) {
  uint64_t total = 0;
  for (const FuseOperation& o : s.fuse.operations) {
    for (const std::string_view name : names) {
      if (o.name == name) total += o.requests;
    }
  }
  return total;
}

uint64_t sent_by(const Snapshot& s, std::string_view name) {
  for (const client::OperationStatistics& o : s.client.operations) {
    if (o.name == name) return o.bytes_sent;
  }
  return 0;
}

// The 27 counters of fs/nfs/iostat.h, in order.
void add_events(std::string& out, const Snapshot& s) {
  const uint64_t events[] = {count(s, {"GETATTR"}),                  // inode revalidations
                             0,                                      // dentry revalidations
                             s.fuse.invalidations,                   // data invalidations
                             0,                                      // attribute invalidations
                             count(s, {"OPEN", "CREATE"}),           // open
                             count(s, {"LOOKUP"}),                   // lookup
                             count(s, {"ACCESS"}),                   // permission
                             0,                                      // update page
                             0,                                      // read page
                             count(s, {"READ"}),                     // read pages
                             0,                                      // write page
                             count(s, {"WRITE"}),                    // write pages
                             count(s, {"READDIR", "READDIRPLUS"}),   // readdir
                             count(s, {"SETATTR"}),                  // setattr
                             count(s, {"FLUSH"}),                    // flush
                             count(s, {"FSYNC"}),                    // fsync
                             count(s, {"GETLK", "SETLK", "FLOCK"}),  // lock
                             count(s, {"RELEASE"}),                  // release
                             0,                                      // congestion waits
                             0,                                      // truncating setattrs
                             0,                                      // extending writes
                             0,                                      // silly renames
                             0,                                      // short reads
                             0,                                      // short writes
                             0,                                      // delays
                             0,                                      // pNFS reads
                             0};                                     // pNFS writes
  out += "\tevents:\t";
  for (const uint64_t event : events) fmt::format_to(Out(out), "{} ", event);
  out += '\n';
}

void add_bytes(std::string& out, const Snapshot& s) {
  uint64_t bulk = 0;  // data of READ replies
  for (const rpc::TransportStatus& t : s.client.transports) bulk += t.bytes_placed + t.bytes_copied;
  const uint64_t written = sent_by(s, "WRITE");
  fmt::format_to(Out(out), "\tbytes:\t{} {} 0 0 {} {} {} {}\n", s.fuse.read_bytes, s.fuse.write_bytes, bulk,
                 written, bulk / 4096, written / 4096);
}

unsigned port_of(std::string_view address) {
  unsigned port = 0;
  if (const size_t colon = address.rfind(':'); colon != std::string_view::npos) {
    std::from_chars(address.data() + colon + 1, address.data() + address.size(), port);
  }
  return port;
}

// Columns of an xprt line for RDMA: port bind connect connect-time idle-time sends receives bad-xids inflight
// backlog, then those of xprtrdma: read, write and reply chunks, bytes requested and replied by RDMA,
// pull-ups, fix-ups, hardway registrations, failed marshalings, bad replies, long calls; memory regions
// recycled, orphaned, allocated; local invalidations, empty send queue, waits for Sends
// (net/sunrpc/xprtrdma/transport.c).
void add_rdma_transport(std::string& out, const rpc::TransportStatus& t) {
  const rdma::RdmaStatus& r = *t.rdma;
  const uint64_t exposing = r.read_chunks + r.long_calls + r.write_chunks + r.reply_chunks;
  fmt::format_to(Out(out),
                 "\txprt:\trdma 0 1 {} 0 0 {} {} {} 0 0 {} {} {} {} {} 0 0 0 0 {} {} 0 0 0 {} 0 0\n",
                 t.connects, t.calls + t.retransmissions, t.replies, t.bad_messages, r.read_chunks,
                 r.write_chunks, r.reply_chunks, r.bytes_fetched, r.bytes_placed, r.errors_received,
                 r.long_calls, exposing - std::min(exposing, r.remotely_invalidated));
}

// Columns of an xprt line for TCP: port bind connect connect-time idle-time sends receives bad-xids inflight
// backlog slots sending pending.
void add_transport_lines(std::string& out, const Snapshot& s) {
  for (const rpc::TransportStatus& t : s.client.transports) {
    if (t.rdma) {
      add_rdma_transport(out, t);
      continue;
    }
    fmt::format_to(Out(out), "\txprt:\ttcp {} 1 {} 0 0 {} {} {} 0 0 {} 0 0\n", port_of(t.local), t.connects,
                   t.calls + t.retransmissions, t.replies, t.bad_messages, s.client.session.slots);
  }
  if (s.client.transports.empty()) out += "\txprt:\ttcp 0 0 0 0 0 0 0 0 0 0 0 0 0\n";
}

void add_operation_lines(std::string& out, const Snapshot& s) {
  out += "\tper-op statistics\n";
  for (const client::OperationStatistics& o : s.client.operations) {
    fmt::format_to(Out(out), "\t{:>12}: {} {} 0 {} {} {} {} {} {}\n", o.name, o.requests,
                   o.requests + o.retransmissions, o.bytes_sent, o.bytes_received, o.queue_us / 1000,
                   o.response_us / 1000, o.total_us / 1000, o.errors);
  }
}

// RFC 2623 section 2.2.1: the pseudo flavors of Kerberos V5.
std::string security_line(const std::string& options) {
  const std::string list = options + ",";
  for (const auto& [name, number] :
       {std::pair("sec=krb5,", 390003), std::pair("sec=krb5i,", 390004), std::pair("sec=krb5p,", 390005)}) {
    if (list.find(name) != std::string::npos)
      return fmt::format("\tsec:\tflavor=6,pseudoflavor={}\n", number);
  }
  return "\tsec:\tflavor=1,pseudoflavor=1\n";
}

}  // namespace

std::string stats_mountstats(const std::vector<Snapshot>& snapshots) {
  std::string out;
  for (const Snapshot& s : snapshots) {
    // The readers accept only the types nfs and nfs4 as NFS mounts.
    const bool version3 = s.mount_options.find("vers=3") != std::string::npos;
    fmt::format_to(Out(out), "device {} mounted on {} with fstype {} statvers=1.1\n", escape_blanks(s.source),
                   escape_blanks(s.mount_point), version3 ? "nfs" : "nfs4");
    fmt::format_to(Out(out), "\topts:\t{}\n", escape_blanks(s.mount_options));
    fmt::format_to(Out(out), "\tage:\t{}\n", s.client.age_seconds);
    fmt::format_to(Out(out), "\tcaps:\twtmult=4096,dtsize={},bsize=0,namlen=255\n",
                   s.client.session.max_response_bytes);
    if (!version3)
      out += "\tnfsv4:\tsessions,lease_time=" + fmt::format("{}", s.client.session.lease_seconds) + "\n";
    out += security_line(s.mount_options);
    add_events(out, s);
    add_bytes(out, s);
    fmt::format_to(Out(out), "\tRPC iostats version: 1.1  p/v: 100003/{} (nfs)\n", version3 ? 3 : 4);
    add_transport_lines(out, s);
    add_operation_lines(out, s);
    out += '\n';
  }
  return out;
}

}  // namespace nfsrdma::cli
