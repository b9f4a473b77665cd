// SPDX-License-Identifier: Apache-2.0
// Checks for the entries of client/nfs4/session/bulk_locators.h. A result for a prefix must hold for each
// longer prefix and for the whole reply. The client must read the same from the reply whether its data is in
// the message or was received separately at the located place.
#pragma once

#include <cstdint>
#include <optional>

#include "client/nfs4/session/bulk_locators.h"
#include "client/nfs4/session/compound.h"
#include "tests/fuzz/fuzz.h"

namespace nfsrdma::fuzz {

using rpc::Locate;

// A COMPOUND that reads: its locator, how the reply is decoded up to READ's result, and its number of results
// (one more if an operation follows READ).
struct ReadShape {
  Locate (*locate)(ConstBytes, rpc::BulkPlace&);
  Result<nfs4::READ4res> (*take)(client::nfs4::CompoundReply&);
  uint32_t results;
};

struct Located {
  Locate found = Locate::kNeedMore;
  rpc::BulkPlace place;

  bool operator==(const Located& b) const {
    return found == b.found &&
           (found != Locate::kFound || (place.offset == b.place.offset && place.length == b.place.length));
  }
};

inline Located locate(const ReadShape& shape, ConstBytes prefix) {
  Located l;
  l.found = shape.locate(prefix, l.place);
  return l;
}

// What the client reads from a reply; nullopt for any error.
struct Read {
  bool eof = false;
  ByteVector data;
  std::optional<size_t> offset;  // of the data, if it is in the message
  bool usual = false;            // the expected number of results, whatever the status of the one after READ
};

inline std::optional<Read> read(const ReadShape& shape, ByteVector message, const Slice* placed) {
  xdr::Decoder x(message);
  rpc::reply_header header;
  if (!x(header) || !rpc::check(header, "READ")) return std::nullopt;
  const std::byte* begin = message.data();
  const size_t size = message.size();
  rpc::Reply reply;
  reply.body = x.position();
  reply.head = std::move(message);
  reply.placed = placed != nullptr;
  reply.bulk_length = placed != nullptr ? placed->size() : 0;
  auto parsed = client::nfs4::CompoundReply::parse(std::move(reply), placed != nullptr ? *placed : Slice{},
                                                   "READ", true);
  if (!parsed || !parsed->sequence() || parsed->sequence()->status != nfs4::NFS4_OK) return std::nullopt;
  const auto res = shape.take(*parsed);
  if (!res) return std::nullopt;
  const ConstBytes data = res->resok4.data;
  Read r;
  r.eof = res->resok4.eof;
  r.data.assign(data.begin(), data.end());
  r.usual = parsed->results() == shape.results || parsed->results() == shape.results + 1;
  if (placed == nullptr) {
    r.offset = static_cast<size_t>(data.data() - begin);
    require(*r.offset <= size && data.size() <= size - *r.offset, "data is of the message");
  }
  return r;
}

// A reply as the transport leaves it when the data went to its destination.
inline std::optional<Read> read_placed(const ReadShape& shape, ConstBytes whole, const rpc::BulkPlace& at) {
  ByteVector data(whole.begin() + static_cast<ptrdiff_t>(at.offset),
                  whole.begin() + static_cast<ptrdiff_t>(at.offset + at.length));
  ByteVector head(whole.begin(), whole.end());
  const auto begin = head.begin() + static_cast<ptrdiff_t>(at.offset);
  head.erase(begin, begin + static_cast<ptrdiff_t>(xdr_padded(at.length)));
  const Slice sink{{}, data};
  return read(shape, std::move(head), &sink);
}

inline void agrees_with_decoding(const ReadShape& shape, ConstBytes input, const Located& located) {
  const std::optional<Read> whole = read(shape, ByteVector(input.begin(), input.end()), nullptr);
  if (located.found != Locate::kFound) {
    require(!whole || (located.found == Locate::kNone && !whole->usual), "data that is there is found");
    return;
  }
  const rpc::BulkPlace& at = located.place;
  require(at.offset <= input.size(), "data begins where bytes were seen");
  if (xdr_padded(at.length) > input.size() - at.offset) {
    require(!whole, "data that ends behind its message is no data");
    return;
  }
  const std::optional<Read> apart = read_placed(shape, input, at);
  require(apart.has_value() == whole.has_value(), "both ways it is good or bad");
  if (!whole) return;
  require(whole->offset == at.offset && whole->data.size() == at.length, "decoding finds the same place");
  require(whole->data == apart->data && whole->eof == apart->eof && whole->usual, "and the same in it");
}

inline void locates_as_it_decodes(const ReadShape& shape, ConstBytes input) {
  const Located whole = locate(shape, input);
  bool said = false;
  for (size_t n = 0; n < input.size(); ++n) {
    const Located prefix = locate(shape, input.first(n));
    require(prefix == whole || (!said && prefix.found == Locate::kNeedMore), "a prefix says nothing else");
    require(prefix.found != Locate::kFound || prefix.place.offset <= n, "nor more than it has");
    said = prefix.found != Locate::kNeedMore;
  }
  agrees_with_decoding(shape, input, whole);
}

}  // namespace nfsrdma::fuzz
