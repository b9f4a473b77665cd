// SPDX-License-Identifier: Apache-2.0
// libnfs's C headers in the order they need, shielded from this project's warnings.
#pragma once

#include <sys/time.h>

#pragma GCC system_header
extern "C" {
#include <nfsc/libnfs-zdr.h>
//
#include <nfsc/libnfs.h>
//
#include <nfsc/libnfs-raw.h>
//
#include <nfsc/libnfs-raw-mount.h>
#include <nfsc/libnfs-raw-nfs.h>
#include <nfsc/libnfs-raw-nfs4.h>
}
