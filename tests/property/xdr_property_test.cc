// SPDX-License-Identifier: Apache-2.0
// Properties that all wire types must have, checked with generated values of all types.

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "tests/property/any_value.h"

namespace nfsrdma::property {
namespace {

using Choices = std::vector<uint32_t>;

ByteVector encoded(const AnyValue& v) {
  ByteVector out;
  xdr::Encoder x(out);
  RC_ASSERT(v.encode(x));
  return out;
}

ByteVector first(const ByteVector& wire, size_t n) {
  return {wire.begin(), wire.begin() + static_cast<ptrdiff_t>(n)};
}

void comes_back_with_its_size(const AnyValue& v) {
  const ByteVector wire = encoded(v);
  xdr::Sizer s;
  v.size(s);
  RC_ASSERT(s.total() == wire.size());
  xdr::Decoder x(wire);
  const auto back = v.another();
  RC_ASSERT(back->decode(x));
  RC_ASSERT(x.left() == 0U);
  RC_ASSERT(back->equals(v));
  RC_ASSERT(encoded(*back) == wire);
}

// A message with bulk items beside the stream must be the same as with inline items.
void bulk_beside_the_stream_is_the_same_message(const AnyValue& v) {
  std::vector<xdr::Bulk> bulks;
  ByteVector inline_part;
  xdr::Encoder x(inline_part, &bulks);
  RC_ASSERT(v.encode(x));
  xdr::Sizer s;
  v.size(s);
  RC_ASSERT(s.inline_bytes() == inline_part.size());
  ByteVector gathered;
  size_t done = 0;
  for (const xdr::Bulk& bulk : bulks) {
    const auto from = inline_part.begin();
    gathered.insert(gathered.end(), from + static_cast<ptrdiff_t>(done),
                    from + static_cast<ptrdiff_t>(bulk.inline_offset));
    done = bulk.inline_offset;
    RC_ASSERT(gathered.size() == bulk.position);
    gathered.insert(gathered.end(), bulk.data.begin(), bulk.data.end());
    gathered.resize(xdr_padded(gathered.size()));
  }
  gathered.insert(gathered.end(), inline_part.begin() + static_cast<ptrdiff_t>(done), inline_part.end());
  RC_ASSERT(gathered == encoded(v));
}

// Each prefix has its own block, so that a sanitizer sees a read beyond its end.
void every_prefix_fails(const AnyValue& v) {
  const ByteVector wire = encoded(v);
  for (size_t n = 0; n < wire.size(); ++n) {
    const ByteVector prefix = first(wire, n);
    xdr::Decoder x(prefix);
    RC_ASSERT(!v.another()->decode(x));
  }
}

// A damaged message either fails to decode, or decodes to a valid value.
void damage_is_refused_or_a_value(const AnyValue& v, const Choices& damage) {
  ByteVector wire = encoded(v);
  if (wire.empty()) return;
  for (size_t i = 0; i + 1 < damage.size() && i < 8; i += 2) {
    wire[damage[i] % wire.size()] = static_cast<std::byte>(damage[i + 1]);
  }
  xdr::Decoder x(wire);
  const auto back = v.another();
  if (!back->decode(x)) return;
  const ByteVector again = encoded(*back);
  xdr::Decoder y(again);
  const auto twice = v.another();
  RC_ASSERT(twice->decode(y));
  RC_ASSERT(twice->equals(*back));
}

void check_all(const std::vector<WireType>& types) {
  ASSERT_FALSE(types.empty());
  for (const WireType& type : types) {
    const AnyValue* any = type.value.get();
    const bool good = rc::check(type.name, [any](const Choices& choices, const Choices& damage) {
      Generator generate(choices);
      const auto v = any->another();
      RC_PRE(v->generate(generate));
      comes_back_with_its_size(*v);
      bulk_beside_the_stream_is_the_same_message(*v);
      every_prefix_fails(*v);
      damage_is_refused_or_a_value(*v, damage);
    });
    EXPECT_TRUE(good) << type.name;
  }
}

TEST(XdrProperty, ArgumentsOfEveryOperation_Hold) {
  check_all(argument_types());
}
TEST(XdrProperty, ResultsOfEveryOperation_Hold) {
  check_all(result_types());
}
TEST(XdrProperty, EveryCallbackOperation_Holds) {
  check_all(callback_types());
}
TEST(XdrProperty, Compounds_Hold) {
  check_all(compound_types());
}

template <class T>
ByteVector encoded_header(const T& v) {
  ByteVector out;
  xdr::Encoder x(out);
  RC_ASSERT(x(v));
  RC_ASSERT(xdr::size_of(v) == out.size());
  for (size_t n = 0; n < out.size(); ++n) {
    const ByteVector prefix = first(out, n);
    xdr::Decoder cut(prefix);
    T back;
    RC_ASSERT(!cut(back));
  }
  return out;
}

bool same(const rpc::opaque_auth& a, const rpc::opaque_auth& b) {
  return a.flavor == b.flavor && as_string_view(a.body) == as_string_view(b.body);
}

TEST(XdrProperty, CallHeaders_Hold) {
  EXPECT_TRUE(rc::check("call_header", [](const Choices& choices) {
    Generator x(choices);
    rpc::call_header v;
    RC_PRE(x(v.xid) && x(v.prog) && x(v.vers) && x(v.proc) && x(v.cred) && x(v.verf));
    const ByteVector wire = encoded_header(v);
    xdr::Decoder d(wire);
    rpc::call_header back;
    RC_ASSERT(d(back));
    RC_ASSERT(d.left() == 0U);
    RC_ASSERT((back.xid == v.xid && back.prog == v.prog && back.vers == v.vers && back.proc == v.proc));
    RC_ASSERT((same(back.cred, v.cred) && same(back.verf, v.verf)));
  }));
}

TEST(XdrProperty, ReplyHeaders_Hold) {
  EXPECT_TRUE(rc::check("reply_header", [](const Choices& choices) {
    Generator x(choices);
    rpc::reply_header v;
    RC_PRE(x(v.xid) && x(v.stat) && x(v.verf) && x(v.accepted) && x(v.denied) && x(v.mismatch) && x(v.why));
    const ByteVector wire = encoded_header(v);
    xdr::Decoder d(wire);
    rpc::reply_header back;
    RC_ASSERT(d(back));
    RC_ASSERT(d.left() == 0U);
    RC_ASSERT((back.xid == v.xid && rpc::status_of(back) == rpc::status_of(v)));
  }));
}

}  // namespace
}  // namespace nfsrdma::property
