// SPDX-License-Identifier: Apache-2.0
#include "filer/links/tls_door.h"

#include <sys/stat.h>

#include <cstring>
#include <utility>

#include "transport/runtime/log.h"

namespace nfsrdma::filer::links {

TlsDoor::TlsDoor(tls::Settings settings, TlsPolicy policy, Times times, tls::Context context)
    : settings_(std::move(settings)), policy_(policy), times_(times), context_(std::move(context)) {}

TlsDoor::Times TlsDoor::times_of(const tls::Settings& settings) {
  Times times{};
  size_t at = 0;
  for (const std::string* path : {&settings.trust, &settings.certificate, &settings.key}) {
    struct stat file {};
    if (!path->empty() && ::stat(path->c_str(), &file) == 0) times[at] = file.st_mtim;
    ++at;
  }
  return times;
}

Result<std::shared_ptr<TlsDoor>> TlsDoor::open(tls::Settings settings, TlsPolicy policy) {
  const Times times = times_of(settings);
  Result<tls::Context> context = tls::Context::server(settings, policy == TlsPolicy::kMutual);
  if (!context) return fail(std::move(context).error());
  return std::shared_ptr<TlsDoor>(new TlsDoor(std::move(settings), policy, times, *std::move(context)));
}

const tls::Context& TlsDoor::context() {
  const Times times = times_of(settings_);
  if (std::memcmp(&times, &times_, sizeof times) == 0) return context_;
  times_ = times;
  Result<tls::Context> context = tls::Context::server(settings_, policy_ == TlsPolicy::kMutual);
  if (context) {
    context_ = *std::move(context);
    log::info("filer: the certificate was read again");
  } else {
    log::warn("filer: {}; going on with the certificate before it", describe(context.error()));
  }
  return context_;
}

}  // namespace nfsrdma::filer::links
