// SPDX-License-Identifier: Apache-2.0
// Explains a failed mount: the server's exports, and the security flavors that an export requires (RFC 8881
// sections 2.6.3.1, 7.3).
#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <optional>

#include "client/nfs4/ops/export_finder.h"

#include "client/nfs4/attributes.h"

namespace nfsrdma::client::nfs4 {
namespace {

// The limits keep the message readable and the number of requests small.
constexpr size_t kMostShown = 20;
constexpr size_t kMostRequests = 32;
constexpr size_t kMostLevels = 6;
constexpr uint32_t kListingBytes = 32768;

// RFC 8881 section 2.6.3.1: Kerberos V5 is 1.2.840.113554.1.2.2. Its OID may come with its DER header (tag
// and length), or without it as from Linux' server.
bool is_kerberos(const std::string& oid) {
  static constexpr std::string_view kKerberos("\x2a\x86\x48\x86\xf7\x12\x01\x02\x02", 9);
  return std::string_view(oid).ends_with(kKerberos);
}

// nullopt: a flavor that this program does not have.
std::optional<SecurityFlavor> flavor_of(const nfs4::secinfo4& flavor) {
  if (flavor.flavor == rpc::AUTH_SYS) return SecurityFlavor::kSys;
  if (flavor.flavor != rpc::RPCSEC_GSS || !is_kerberos(flavor.flavor_info.oid)) return std::nullopt;
  switch (static_cast<uint32_t>(flavor.flavor_info.service)) {
    case 1: return SecurityFlavor::kKrb5;
    case 2: return SecurityFlavor::kKrb5i;
    case 3: return SecurityFlavor::kKrb5p;
    default: return std::nullopt;
  }
}

std::string name_of(const nfs4::secinfo4& flavor) {
  if (const auto known = flavor_of(flavor)) return std::string(to_string(*known));
  if (flavor.flavor == rpc::AUTH_NONE) return "none";
  if (flavor.flavor == rpc::RPCSEC_GSS) return "RPCSEC_GSS";
  return fmt::format("flavor {}", static_cast<uint32_t>(flavor.flavor));
}

std::string joined(const std::vector<std::string>& all) {
  const size_t shown = std::min(all.size(), kMostShown);
  std::string text =
      fmt::format("{}", fmt::join(all.begin(), all.begin() + static_cast<ptrdiff_t>(shown), ", "));
  if (shown < all.size()) text += fmt::format(" and {} more", all.size() - shown);
  return text;
}

}  // namespace

// Section 2.6.3.1.1: SECINFO and SECINFO_NO_NAME return the accepted flavors.
Task<std::string> ExportFinder::wanted_flavors(const nfs4::nfs_fh4* from, std::vector<std::string> names) {
  auto build = [&](CompoundBuilder& b) {
    if (from != nullptr) {
      b.putfh(*from);
    } else {
      b.add(nfs4::PUTROOTFH4args{});
    }
    for (size_t i = 0; i + 1 < names.size(); ++i) b.add(nfs4::LOOKUP4args{names[i]});
    if (names.empty()) {
      b.add(nfs4::SECINFO_NO_NAME4args{});
    } else {
      b.add(nfs4::SECINFO4args{names.back()});
    }
  };
  const Request request{.op = nfs4::OP_SECINFO, .credential = machine_, .build = build};
  Result<CompoundReply> reply = co_await session_.run(request);
  std::vector<std::string> flavors;
  std::vector<SecurityFlavor> offered;
  const auto collect = [&](const std::vector<nfs4::secinfo4>& all) {
    for (const nfs4::secinfo4& flavor : all) {
      flavors.push_back("sec=" + name_of(flavor));
      if (const auto known = flavor_of(flavor)) offered.push_back(*known);
    }
  };
  if (reply && (from != nullptr ? reply->expect<nfs4::PUTFH4res>() : reply->expect<nfs4::PUTROOTFH4res>())) {
    bool there = true;
    for (size_t i = 0; there && i + 1 < names.size(); ++i)
      there = reply->expect<nfs4::LOOKUP4res>().has_value();
    if (there && names.empty()) {
      if (auto res = reply->take<nfs4::SECINFO_NO_NAME4res>()) collect(res->resok4);
    } else if (there) {
      if (auto res = reply->take<nfs4::SECINFO4res>()) collect(res->resok4);
    }
  }
  const std::string wants = flavors.empty() ? "another security flavor" : joined(flavors);
  if (options_.offered_flavors) options_.offered_flavors->set(std::move(offered));
  co_return fmt::format("the server wants {}, and this mount has sec={}", wants, to_string(options_.flavor));
}

Task<Result<ExportFinder::Listed>> ExportFinder::list_directory(std::vector<std::string> names,
                                                                nfs4::bitmap4 wanted) {
  const nfs4::bitmap4 which = nfs4::bitmap4::of({nfs4::FATTR4_TYPE, nfs4::FATTR4_FSID});
  nfs4::READDIR4args args;
  args.dircount = kListingBytes / 4;
  args.maxcount = std::min(kListingBytes, session_.fore_channel().response_bytes() / 2);
  args.attr_request = wanted;
  auto build = [&](CompoundBuilder& b) {
    b.add(nfs4::PUTROOTFH4args{});
    for (const std::string& name : names) b.add(nfs4::LOOKUP4args{name});
    b.getattr(which);
    if (!wanted.empty()) b.add(args);
  };
  const Request request{.op = nfs4::OP_READDIR, .credential = machine_, .build = build};
  Result<CompoundReply> reply = co_await session_.run(request);
  if (!reply) co_return fail(std::move(reply.error()));
  NFSRDMA_CO_TRY(reply->expect<nfs4::PUTROOTFH4res>());
  for (size_t i = 0; i < names.size(); ++i) NFSRDMA_CO_TRY(reply->expect<nfs4::LOOKUP4res>());
  auto own = reply->take<nfs4::GETATTR4res>();
  if (!own) co_return fail(std::move(own.error()));
  Listed listed{std::move(own->resok4.obj_attributes), {}};
  if (wanted.empty()) co_return listed;
  auto listing = reply->take<nfs4::READDIR4res>();
  if (!listing) co_return fail(std::move(listing.error()));
  listed.entries = std::move(listing->resok4.reply.entries);
  co_return listed;
}

// Section 7.3: the root of a server's name space leads to its exports through a pseudo file system. An export
// begins where the file system changes.
Task<std::vector<std::string>> ExportFinder::find_exports() {
  struct Place {
    std::vector<std::string> names;
    std::string path;
  };
  std::deque<Place> places(1);
  std::vector<std::string> exports, directories;
  std::optional<nfs4::fsid4> pseudo;
  const nfs4::bitmap4 wanted =
      nfs4::bitmap4::of({nfs4::FATTR4_TYPE, nfs4::FATTR4_FSID, nfs4::FATTR4_RDATTR_ERROR});
  for (size_t n = 0; n < kMostRequests && !places.empty(); ++n) {
    const Place place = std::move(places.front());
    places.pop_front();
    auto listing = list_directory(place.names, wanted);
    Result<Listed> listed = co_await std::move(listing);
    // nfs-ganesha 6 returns this error for the whole directory if a single entry needs another security
    // flavor. List the directory with kBareAttributes, and ask for each entry in its own request.
    const bool bare = !listed && listed.error().is_status(nfs4::NFS4ERR_WRONGSEC);
    if (bare) {
      auto once_more = list_directory(place.names, kBareAttributes);
      listed = co_await std::move(once_more);
    }
    if (!listed) continue;
    if (!pseudo) pseudo = listed->own.fsid;
    for (nfs4::entry4& entry : listed->entries) {
      const std::string path = place.path + "/" + entry.name;
      Place below{place.names, path};
      below.names.push_back(entry.name);
      if (bare && ++n < kMostRequests) {
        auto asking = list_directory(below.names, {});
        if (Result<Listed> found = co_await std::move(asking)) entry.attrs = std::move(found->own);
      }
      const nfs4::fattr4& a = entry.attrs;
      if (a.has(nfs4::FATTR4_TYPE) && a.type != nfs4::NF4DIR) continue;
      if (a.has(nfs4::FATTR4_RDATTR_ERROR) || !a.has(nfs4::FATTR4_FSID) || a.fsid != *pseudo) {
        exports.push_back(path);  // also exports that this client may not use
        continue;
      }
      directories.push_back(path);
      if (below.names.size() < kMostLevels) places.push_back(std::move(below));
    }
  }
  co_return exports.empty() ? std::move(directories) : std::move(exports);
}

Task<Error> ExportFinder::explain(Error error, const nfs4::nfs_fh4* from, std::vector<std::string> names) {
  if (!names.empty()) error.cause = fmt::format("\"{}\" in the path {}", names.back(), options_.export_path);
  std::string more;
  if (error.is_status(nfs4::NFS4ERR_WRONGSEC)) {
    auto asking = wanted_flavors(from, std::move(names));
    more = co_await std::move(asking);
  } else if (error.is_status(nfs4::NFS4ERR_NOENT) || error.is_status(nfs4::NFS4ERR_ACCESS)) {
    auto asking = find_exports();
    const std::vector<std::string> exports = co_await std::move(asking);
    if (!exports.empty()) more = fmt::format("the server exports {}", joined(exports));
  }
  if (!error.cause.empty() && !more.empty()) error.cause += ": ";
  error.cause += more;
  co_return error;
}

}  // namespace nfsrdma::client::nfs4
