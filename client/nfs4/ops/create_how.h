// SPDX-License-Identifier: Apache-2.0
// How a file is created by an OPEN, and what is set after it (RFC 8881 sections 18.16.3, 18.16.4). Pure
// functions; any thread.
#pragma once

#include <cstdint>

#include "client/api/filesystem.h"
#include "client/nfs4/protocol_types.h"
#include "xdr/nfs4/open_ops.h"

namespace nfsrdma::client::nfs4 {

// For open(2)'s `flags` and `mode`: EXCLUSIVE4_1 for O_EXCL, which an OPEN that is sent again after a restart
// does not fail; else UNCHECKED4. `settable`: the attributes that the server sets with EXCLUSIVE4_1
// (suppattr_exclcreat).
nfs4::createhow4 how_to_create(int flags, uint32_t mode, const nfs4::bitmap4& settable,
                               const nfs4::verifier4& verifier);

// The attributes that a SETATTR must set after the OPEN with `how`. `attrset`: what the OPEN's reply said.
SetAttributes left_to_set(const nfs4::createhow4& how, const nfs4::bitmap4& attrset, uint32_t mode);

// True if the OPEN has opened a file that existed: it did not change the directory. False if the reply does
// not tell.
bool existed(const nfs4::createhow4& how, const nfs4::change_info4& directory);

}  // namespace nfsrdma::client::nfs4
