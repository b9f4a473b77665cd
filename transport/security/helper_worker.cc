// SPDX-License-Identifier: Apache-2.0
#include "transport/security/helper_worker.h"

#include <fmt/format.h>
#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "transport/security/helper_messages.h"
#include "transport/security/packets.h"

namespace nfsrdma::security {
namespace {

Error no_credentials(std::string cause) {
  return {.layer = Layer::kSecurity,
          .recovery = Recovery::kPermanent,
          .errnum = EACCES,
          .op = "Kerberos",
          .cause = std::move(cause)};
}

// A change of users empties the sets as well, but user 0 would keep them.
Result<> give_up_capabilities() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  const __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {};
  if (::syscall(SYS_capset, &header, none) == 0) return {};
  return fail(no_credentials(fmt::format("cannot give up capabilities: {}", std::strerror(errno))));
}

}  // namespace

Result<> become(uint32_t user) {
  const uid_t own = ::geteuid();
  if (own != 0) {
    if (user == own) return give_up_capabilities();
    return fail(no_credentials("a mount of one user has no tickets of others"));
  }
  // Whoever is not known here gets no group's rights.
  gid_t group = 65534;
  if (const passwd* entry = ::getpwuid(user)) group = entry->pw_gid;
  // A user namespace with one user forbids setgroups(2). Its root stays who he is, with his own groups.
  const bool groups_gone = ::setgroups(0, nullptr) == 0;
  if (!groups_gone && errno == EPERM && user == own) return give_up_capabilities();
  if (!groups_gone || ::setresgid(group, group, group) != 0 || ::setresuid(user, user, user) != 0)
    return fail(no_credentials(fmt::format("cannot become user {}: {}", user, std::strerror(errno))));
  uid_t real = 0, effective = 0, saved = 0;
  if (::getresuid(&real, &effective, &saved) != 0 || real != user || effective != user || saved != user)
    return fail(no_credentials(fmt::format("did not become user {}", user)));
  return give_up_capabilities();
}

void serve_exchange(int socket, const FindCredentials& find, std::chrono::seconds limit) {
  // The limit is the library's, not the server's or the daemon's: none while we wait for them.
  const auto limited = [limit] { alarm(static_cast<unsigned>(limit.count())); };
  const auto tell = [socket](const Error& error) { (void)send_packet(socket, encode(answer_of(error))); };
  const Result<ByteVector> first = receive_packet(socket, kMaxHelperMessage);
  if (!first || first->empty()) return;
  const Result<ContextRequest> request = decode_request(*first);
  if (!request) return tell(request.error());
  limited();
  Result<std::unique_ptr<TokenMaker>> maker = find(*request);
  if (!maker) return tell(maker.error());
  ByteVector token;
  for (;;) {
    limited();
    Result<InitiationStep> step = (*maker)->step(token);
    alarm(0);
    if (!step) return tell(step.error());
    HelperAnswer answer;
    answer.kind = step->context ? AnswerKind::kDone : AnswerKind::kToken;
    answer.token = std::move(step->token);
    if (step->context) answer.context = *std::move(step->context);
    const ByteVector packet = encode(answer);
    if (packet.empty()) return tell(no_credentials("a token exceeds the helper's limit"));
    if (!send_packet(socket, packet) || step->context) return;
    Result<ByteVector> next = receive_packet(socket, kMaxTokenBytes);
    if (!next || next->empty()) return;
    token = *std::move(next);
  }
}

}  // namespace nfsrdma::security
