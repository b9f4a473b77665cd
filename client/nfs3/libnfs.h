// SPDX-License-Identifier: Apache-2.0
// libnfs's headers, in the order in which they can be read. For client/nfs3/*.cc only: they define macros
// with common names.
#pragma once

#include <nfsc/libnfs.h>

// After the above.
#include <nfsc/libnfs-raw-mount.h>
#include <nfsc/libnfs-raw-nfs.h>
#include <nfsc/libnfs-raw-portmap.h>
#include <nfsc/libnfs-raw.h>
