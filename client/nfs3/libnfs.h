// SPDX-License-Identifier: Apache-2.0
// libnfs's headers, in the order that they need. Only for client/nfs3/*.cc: they define macros with common
// names.
#pragma once

#include <nfsc/libnfs.h>

// Needs the headers above.
#include <nfsc/libnfs-raw-mount.h>
#include <nfsc/libnfs-raw-nfs.h>
#include <nfsc/libnfs-raw-portmap.h>
#include <nfsc/libnfs-raw.h>
