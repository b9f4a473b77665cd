// SPDX-License-Identifier: Apache-2.0
// Golden messages: complete RPC messages in hexadecimal, one in each file. README.md names their origin.
//
// The file's name gives the kind: *_call and *_reply belong to the NFS program, *_cb_call and *_cb_reply to
// the callback program. Used by the golden, hostile and fuzz tests.
#pragma once

#include <string>
#include <vector>

#include "tests/golden/hex.h"
#include "xdr/nfs4/cb_compound.h"
#include "xdr/nfs4/compound.h"
#include "xdr/rpc.h"

namespace nfsrdma::golden {

enum class Kind { kCall, kReply, kCallbackCall, kCallbackReply };

struct Message {
  std::string name;  // without ".hex"
  Kind kind = Kind::kCall;
  ByteVector bytes;
};

// All messages in tests/golden, by name.
const std::vector<Message>& messages();
const Message& message(std::string_view name);

template <class Header, class Body>
struct Decoded {
  Header header;
  Body body;
};
using Call = Decoded<rpc::call_header, nfs4::COMPOUND4args>;
using Reply = Decoded<rpc::reply_header, nfs4::COMPOUND4res>;
using CallbackCall = Decoded<rpc::call_header, nfs4::CB_COMPOUND4args>;
using CallbackReply = Decoded<rpc::reply_header, nfs4::CB_COMPOUND4res>;

// Whether a body follows the header. A reply that refuses the call has none.
inline bool has_body(const rpc::call_header&) {
  return true;
}
inline bool has_body(const rpc::reply_header& header) {
  return header.success();
}

// Decodes header and body, to the last byte.
template <class T>
bool decode(ConstBytes bytes, T& out, std::string* why = nullptr) {
  xdr::Decoder x(bytes);
  const bool good = x(out.header) && (!has_body(out.header) || x(out.body)) && x.left() == 0;
  if (why != nullptr) *why = x.left() != 0 && x.ok() ? "trailing bytes" : x.failure();
  return good;
}

template <class T>
ByteVector encode(const T& value) {
  ByteVector out;
  xdr::Encoder x(out);
  if (!x(value.header) || (has_body(value.header) && !x(value.body))) out.clear();
  return out;
}

template <class T>
size_t size_of(const T& value) {
  xdr::Sizer x;
  x(value.header);
  if (has_body(value.header)) x(value.body);
  return x.total();
}

// Calls visit(T{}) with the Decoded<> for this kind of message.
template <class Visit>
void visit_kind(Kind kind, Visit visit) {
  switch (kind) {
    case Kind::kCall: return visit(Call{});
    case Kind::kReply: return visit(Reply{});
    case Kind::kCallbackCall: return visit(CallbackCall{});
    case Kind::kCallbackReply: return visit(CallbackReply{});
  }
}

}  // namespace nfsrdma::golden
