// SPDX-License-Identifier: Apache-2.0
#include "tests/property/generator.h"

#include <algorithm>
#include <iterator>

namespace nfsrdma::property {

uint32_t Generator::next() {
  return at_ == choices_.size() ? 0 : choices_[at_++];
}

bool Generator::operator()(uint32_t& v) {
  v = next();
  return ok_;
}

bool Generator::operator()(int32_t& v) {
  v = static_cast<int32_t>(next());
  return ok_;
}

bool Generator::operator()(uint64_t& v) {
  v = uint64_t{next()} << 32;
  v |= next();
  return ok_;
}

bool Generator::operator()(int64_t& v) {
  uint64_t raw = 0;
  (*this)(raw);
  v = static_cast<int64_t>(raw);
  return ok_;
}

bool Generator::operator()(bool& v) {
  v = next() % 2 == 1;
  return ok_;
}

// Half of the results succeed. Failures with data of their own are frequent.
bool Generator::operator()(nfs4::nfsstat4& v) {
  constexpr nfs4::nfsstat4 kStatuses[] = {nfs4::NFS4_OK,        nfs4::NFS4_OK,         nfs4::NFS4_OK,
                                          nfs4::NFS4ERR_DENIED, nfs4::NFS4ERR_NOTSUPP, nfs4::nfsstat4{10999}};
  v = kStatuses[below(std::size(kStatuses))];
  return ok_;
}

bool Generator::operator()(rpc::Xid& v) {
  v = rpc::Xid{next()};
  return ok_;
}

bool Generator::fixed(MutableBytes bytes) {
  for (std::byte& b : bytes) b = static_cast<std::byte>(next());
  return ok_;
}

bool Generator::opaque(ConstBytes& view, size_t max) {
  ByteVector& bytes = kept_.emplace_back(std::min<size_t>(below(18), max));
  fixed(bytes);
  view = bytes;
  return ok_;
}

bool Generator::count(uint32_t& n, size_t max, size_t) {
  n = static_cast<uint32_t>(std::min<size_t>(below(4), max));
  return ok_;
}

bool Generator::fail(const char*) {
  ok_ = false;
  return false;
}

bool xdr(Generator& x, nfs4::fattr4& v) {
  using namespace nfs4;  // NOLINT: a list of attributes
  for (uint32_t n = x.below(9); n > 0; --n) v.attrmask.set(x.below(kAttributeCount));
  const auto want = [&](fattr4_number number) { return v.attrmask.test(number); };
  const auto text = [&](fattr4_number number, std::string& s) {
    return !want(number) || xdr::bytes(x, s, 64);
  };
  const auto fill = [&](fattr4_number number, auto& member) { return !want(number) || x(member); };
  const auto fs = [&](fattr4_number number, auto member) { return !want(number) || x(v.fs.edit().*member); };
  const auto rare = [&](fattr4_number number, auto member) {
    return !want(number) || x(v.rare.edit().*member);
  };
  const auto list = [&](fattr4_number number, auto member) {
    return !want(number) || xdr::array(x, v.rare.edit().*member, 3);
  };
  using F = fs_attributes4;
  using R = rare_attributes4;
  return fill(FATTR4_TYPE, v.type) && fill(FATTR4_CHANGE, v.change) && fill(FATTR4_SIZE, v.size) &&
         fill(FATTR4_NAMED_ATTR, v.named_attr) && fill(FATTR4_FSID, v.fsid) &&
         fill(FATTR4_RDATTR_ERROR, v.rdattr_error) && fill(FATTR4_FILEHANDLE, v.filehandle) &&
         fill(FATTR4_FILEID, v.fileid) && fill(FATTR4_MODE, v.mode) && fill(FATTR4_NUMLINKS, v.numlinks) &&
         text(FATTR4_OWNER, v.owner) && text(FATTR4_OWNER_GROUP, v.owner_group) &&
         fill(FATTR4_RAWDEV, v.rawdev) && fill(FATTR4_SPACE_USED, v.space_used) &&
         fill(FATTR4_TIME_ACCESS, v.time_access) && fill(FATTR4_TIME_ACCESS_SET, v.time_access_set) &&
         fill(FATTR4_TIME_CREATE, v.time_create) && fill(FATTR4_TIME_METADATA, v.time_metadata) &&
         fill(FATTR4_TIME_MODIFY, v.time_modify) && fill(FATTR4_TIME_MODIFY_SET, v.time_modify_set) &&
         fill(FATTR4_MOUNTED_ON_FILEID, v.mounted_on_fileid) &&
         fs(FATTR4_SUPPORTED_ATTRS, &F::supported_attrs) && fs(FATTR4_LEASE_TIME, &F::lease_time) &&
         fs(FATTR4_FILES_FREE, &F::files_free) && fs(FATTR4_MAXNAME, &F::maxname) &&
         fs(FATTR4_MAXREAD, &F::maxread) && fs(FATTR4_TIME_DELTA, &F::time_delta) &&
         fs(FATTR4_NO_TRUNC, &F::no_trunc) && fs(FATTR4_CHANGE_ATTR_TYPE, &F::change_attr_type) &&
         list(FATTR4_ACL, &R::acl) && rare(FATTR4_DACL, &R::dacl) &&
         rare(FATTR4_FS_LOCATIONS, &R::fs_locations) &&
         rare(FATTR4_FS_LOCATIONS_INFO, &R::fs_locations_info) && rare(FATTR4_FS_STATUS, &R::fs_status) &&
         rare(FATTR4_CHANGE_POLICY, &R::change_policy) && list(FATTR4_LAYOUT_TYPES, &R::layout_types) &&
         rare(FATTR4_LAYOUT_HINT, &R::layout_hint) && list(FATTR4_MDSTHRESHOLD, &R::mdsthreshold) &&
         rare(FATTR4_RETENTION_GET, &R::retention_get) && rare(FATTR4_RETENTION_SET, &R::retention_set) &&
         rare(FATTR4_MODE_UMASK, &R::mode_umask) && (!want(FATTR4_FS_STATUS) || x.ok()) &&
         rare(FATTR4_SEC_LABEL, &R::sec_label);
}

}  // namespace nfsrdma::property
