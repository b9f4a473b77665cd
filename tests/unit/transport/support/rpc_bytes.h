// SPDX-License-Identifier: Apache-2.0
// RPC messages built byte by byte, independent of the code under test.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "transport/memory/buffer.h"
#include "transport/rpc/rpc_transport.h"
#include "xdr/support/bytes.h"

namespace nfsrdma::test {

ByteVector words(std::initializer_list<uint32_t> values);
ByteVector concat(std::initializer_list<ConstBytes> parts);
// `n` bytes that depend on `seed` and on their position, so that a shifted or foreign byte is detected.
ByteVector pattern(size_t n, uint32_t seed);
uint32_t word_at(ConstBytes bytes, size_t offset);

// A call as upper layers pass it on: XID 0, program 100003 version 4 procedure 1, AUTH_NONE, then
// `arguments`.
ByteVector call_head(ConstBytes arguments = {});
constexpr size_t kCallHeaderBytes = 40;
// The XID of a received call.
uint32_t xid_of(ConstBytes message);

// An accepted, successful reply: 24 bytes of header, then `results`.
ByteVector reply(uint32_t xid, ConstBytes results = {});
constexpr size_t kReplyHeaderBytes = 24;
// A reply with the call's arguments as its results.
ByteVector echo(ConstBytes call);
// The first word of a call's arguments.
uint32_t argument(ConstBytes call);

// The result of the tests' "READ": status, length, data, padding; then `trailer`.
ByteVector read_results(ConstBytes data, ConstBytes trailer = {});
// Finds the data of read_results() in a reply: kNone unless status is 0.
rpc::Locate locate_read(ConstBytes prefix, rpc::BulkPlace& place);
constexpr size_t kReadDataOffset = kReplyHeaderBytes + 8;

// The message as one record, cut into fragments of at most `fragment` bytes (0: one fragment).
ByteVector record(ConstBytes message, size_t fragment = 0);

}  // namespace nfsrdma::test
