// SPDX-License-Identifier: Apache-2.0
// Frames that Linux' siw (kernel client and knfsd, Linux 6.1.192) sent between two virtual machines; NFSv4.1
// over RPC-over-RDMA version 1. No CRC, no markers.
#pragma once

namespace nfsrdma::test::captured {

// MPA Request, client: revision 2, S, IRD 128, ORD 0, RFC 8797 private data with the R bit.
inline constexpr char kMpaRequest[] =
    "4d504120494420526571204672616d65 10 02 000c 0080 0000 f6ab0e1801010303";
// MPA Reply, knfsd: IRD 0, ORD 128.
inline constexpr char kMpaReply[] = "4d504120494420526570204672616d65 10 02 000c 0000 0080 f6ab0e1801000303";
// Send, MSN 1: an NFSv4 NULL call.
inline constexpr char kSend[] =
    "005641430000000000000000000000010000000025e30e5d000000010000008000000000000000000000000000000000"
    "25e30e5d0000000000000002000186a300000004000000000000000000000000000000000000000000000000";
// Send with Invalidate of 0x44a39f01, queue 0, MSN 2; the payload is only a transport header.
inline constexpr char kSendInvalidate[] =
    "0042414444a39f0100000000000000020000000026e30e5d000000010000004000000001000000000000000000000001"
    "0000000144a39f010000006c26e30e5d0464c00000000000";
// RDMA Write of 108 bytes.
inline constexpr char kWrite[] =
    "007ac14044a39f0126e30e5d0464c00026e30e5d00000001000000000000000000000000000000000000000000000000"
    "000000010000002a000000005b20006b2655184500000001000200010000000000000000000000000000000c766d6c61"
    "622d6c697374656e0000000c766d6c61622d6c697374656e0000000000000000";
// RDMA Read Request, MSN 1, of 262144 bytes.
inline constexpr char kReadRequest[] =
    "002e414100000000000000010000000100000000bf32d001ffff88810490800000040000b551cb013be30e5d035f0000"
    "00000000";

}  // namespace nfsrdma::test::captured
