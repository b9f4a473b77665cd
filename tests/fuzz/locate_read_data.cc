// Fuzz entry: where a READ's data lies in a reply that is still coming in. Held to: what is said of a prefix
// is said of every longer one, and of the whole; and the client makes the same of the reply whichever way its
// data came, in the message or received apart from it as the transport does with what was located.

#include <optional>

#include "client/nfs4/bulk_locators.h"
#include "client/nfs4/compound.h"
#include "tests/fuzz/fuzz.h"

namespace {

using namespace nfsrdma;  // NOLINT
using rpc::Locate;

struct Located {
  Locate found = Locate::kNeedMore;
  rpc::BulkPlace place;

  bool operator==(const Located& b) const {
    return found == b.found &&
           (found != Locate::kFound || (place.offset == b.place.offset && place.length == b.place.length));
  }
};

Located locate(ConstBytes prefix) {
  Located l;
  l.found = client::locate_read_data(prefix, l.place);
  return l;
}

// What the client makes of a reply: nothing if it is an error of any kind.
struct Read {
  bool eof = false;
  ByteVector data;
  std::optional<size_t> offset;  // of data that is in the message
  bool usual = false;            // as many results as a READ asks for, and no error behind them
};

std::optional<Read> read(ByteVector message, const Slice* placed) {
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
  auto parsed =
      client::CompoundReply::parse(std::move(reply), placed != nullptr ? *placed : Slice{}, "READ", true);
  if (!parsed || !parsed->sequence() || parsed->sequence()->status != nfs4::NFS4_OK) return std::nullopt;
  if (!parsed->expect<nfs4::PUTFH4res>()) return std::nullopt;
  const auto res = parsed->take<nfs4::READ4res>();
  if (!res) return std::nullopt;
  const ConstBytes data = res->resok4.data;
  Read r;
  r.eof = res->resok4.eof;
  r.data.assign(data.begin(), data.end());
  r.usual =
      (parsed->results() == 3 || parsed->results() == 4) && parsed->ok();  // 4: with GETATTR behind READ
  if (placed == nullptr) {
    r.offset = static_cast<size_t>(data.data() - begin);
    fuzz::require(*r.offset <= size && data.size() <= size - *r.offset, "data is of the message");
  }
  return r;
}

// As the transport leaves a reply whose data went to its destination.
std::optional<Read> read_placed(ConstBytes whole, const rpc::BulkPlace& at) {
  ByteVector data(whole.begin() + static_cast<ptrdiff_t>(at.offset),
                  whole.begin() + static_cast<ptrdiff_t>(at.offset + at.length));
  ByteVector head(whole.begin(), whole.end());
  const auto begin = head.begin() + static_cast<ptrdiff_t>(at.offset);
  head.erase(begin, begin + static_cast<ptrdiff_t>(xdr_padded(at.length)));
  const Slice sink{{}, data};
  return read(std::move(head), &sink);
}

void agrees_with_decoding(ConstBytes input, const Located& located) {
  const std::optional<Read> whole = read(ByteVector(input.begin(), input.end()), nullptr);
  if (located.found != Locate::kFound) {
    fuzz::require(!whole || (located.found == Locate::kNone && !whole->usual), "data that is there is found");
    return;
  }
  const rpc::BulkPlace& at = located.place;
  fuzz::require(at.offset <= input.size(), "data begins where bytes were seen");
  if (xdr_padded(at.length) > input.size() - at.offset) {
    fuzz::require(!whole, "data that ends behind its message is no data");
    return;
  }
  const std::optional<Read> apart = read_placed(input, at);
  fuzz::require(apart.has_value() == whole.has_value(), "both ways it is good or bad");
  if (!whole) return;
  fuzz::require(whole->offset == at.offset && whole->data.size() == at.length,
                "decoding finds the same place");
  fuzz::require(whole->data == apart->data && whole->eof == apart->eof && whole->usual, "and the same in it");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const ConstBytes input = fuzz::bytes_of(data, size);
  const Located whole = locate(input);
  bool said = false;
  for (size_t n = 0; n < size; ++n) {
    const Located prefix = locate(input.first(n));
    fuzz::require(prefix == whole || (!said && prefix.found == Locate::kNeedMore),
                  "a prefix says nothing else");
    fuzz::require(prefix.found != Locate::kFound || prefix.place.offset <= n, "nor more than it has");
    said = prefix.found != Locate::kNeedMore;
  }
  agrees_with_decoding(input, whole);
  return 0;
}
