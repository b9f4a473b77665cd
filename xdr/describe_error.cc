// SPDX-License-Identifier: Apache-2.0
#include "xdr/support/error.h"

#include <cstring>

#include "xdr/nfs4_status.h"
#include "xdr/rpc.h"

namespace nfsrdma {

namespace {

std::string status_text(const Error& error) {
  if (error.status == 0) return {};
  switch (error.layer) {
    case Layer::kNfs:
    case Layer::kSession: return nfs4::name_of(static_cast<nfs4::nfsstat4>(error.status));
    case Layer::kRpc: return rpc::name_of(static_cast<rpc::RpcStatus>(error.status));
    case Layer::kSecurity: return {};  // the cause says it
    default: return std::string(to_string(error.layer)) + " status " + std::to_string(error.status);
  }
}

// Whether the cause explains the error better than errno's text, which would name another cause.
bool says_itself(const Error& error) {
  if (error.cause.empty()) return false;
  const std::string_view op = error.op;
  if (error.layer == Layer::kTransport) return op == "resolve";
  if (error.layer == Layer::kSecurity) return true;
  // fusermount3 returns only an exit status; its message says why.
  if (error.layer == Layer::kSystem) return op == "mount" && error.cause.starts_with("fusermount3: ");
  return error.is_status(nfs4::NFS4ERR_WRONGSEC);
}

std::string errno_text(const Error& error) {
  if (error.errnum == 0 || says_itself(error)) return {};
  const char* known = strerrordesc_np(error.errnum);
  std::string text = known != nullptr ? std::string(known) : "errno " + std::to_string(error.errnum);
  // Causes that quote the system already contain the text ("127.0.0.1:2049: Connection refused").
  return error.cause.find(text) == std::string::npos ? text : std::string();
}

void append_clause(std::string& line, std::string_view clause) {
  if (clause.empty()) return;
  if (!line.empty()) line += ": ";
  line += clause;
}

}  // namespace

std::string_view to_string(Layer layer) {
  switch (layer) {
    case Layer::kXdr: return "xdr";
    case Layer::kRpc: return "rpc";
    case Layer::kSecurity: return "security";
    case Layer::kTransport: return "transport";
    case Layer::kSession: return "session";
    case Layer::kNfs: return "nfs";
    case Layer::kFuse: return "fuse";
    case Layer::kCli: return "cli";
    case Layer::kSystem: return "system";
  }
  return "unknown layer";
}

std::string_view to_string(Recovery recovery) {
  switch (recovery) {
    case Recovery::kPermanent: return "permanent";
    case Recovery::kRetry: return "retry";
    case Recovery::kWait: return "wait";
    case Recovery::kReconnect: return "reconnect";
    case Recovery::kNewSession: return "new session";
    case Recovery::kRecoverState: return "recover state";
    case Recovery::kInterrupted: return "interrupted";
  }
  return "unknown recovery";
}

std::string describe(const Error& error) {
  std::string line = error.op;
  append_clause(line, status_text(error));
  append_clause(line, errno_text(error));
  append_clause(line, error.cause);
  return line;
}

Error system_error(int errnum, const char* op, std::string cause, SourceLocation where) {
  return {.layer = Layer::kSystem,
          .recovery = Recovery::kPermanent,
          .errnum = errnum,
          .op = op,
          .cause = std::move(cause),
          .where = where};
}

}  // namespace nfsrdma
