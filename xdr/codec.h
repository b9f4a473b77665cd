// SPDX-License-Identifier: Apache-2.0
// The XDR codec. One description of each type serves to encode, to decode and to compute the exact size.
//
// A wire type T is described once, by a function template that is found by argument-dependent lookup:
//
//     template <class X> bool xdr(X& x, Ref<X, T> v) { return x(v.a) && x(v.b); }
//
// X is Encoder, Decoder or Sizer. Ref<X, T> is T& for the Decoder and const T& for the others. `x(v)` returns
// false after the first failure, which x keeps; later calls do nothing.
//
// The Sizer computes, before anything is sent, how many inline bytes and how many bulk bytes a message takes.
// Bulk items (the data of READ and WRITE) are not part of the inline stream. The Encoder records (span, XDR
// position) for each, and the transport chooses between gathering, a Read chunk and a long call. The Decoder
// takes a bulk item from the memory given to set_bulk(), where the transport has received it, or else from
// the message itself.
//
// The codec does no I/O, and a peer's claim alone allocates nothing: each length is checked against the
// type's maximum and against the bytes left before memory is allocated. Errors: Layer::kXdr,
// Recovery::kPermanent, errno EIO. Not thread-safe; objects are made for one message, on the caller's stack.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "xdr/support/bytes.h"
#include "xdr/support/result.h"

namespace nfsrdma::xdr {

class Encoder;
class Decoder;
class Sizer;

template <class X>
inline constexpr bool kDecodes = std::is_same_v<X, Decoder>;

template <class X, class T>
using Ref = std::conditional_t<kDecodes<X>, T&, const T&>;

// A bulk item: `data` belongs at `position` of the XDR stream and at `inline_offset` of the inline bytes.
// Positions count from the start of the RPC message and include earlier bulk items with their padding. The
// inline bytes do not contain the item's padding: a sender that puts the item inline adds
// xdr_padding(data.size()) zero bytes. Never empty. The owner keeps `data` valid until the reply has come.
struct Bulk {
  size_t position = 0;
  ConstBytes data;
  size_t inline_offset = 0;
};

// Declares `xdr` as a function name here, so that the calls below use argument-dependent lookup. Without it,
// lookup would find this namespace and stop.
void xdr() = delete;

template <class T>
concept XdrEnum = std::is_enum_v<T> && sizeof(T) == 4;

// ---------------------------------------------------------------------------------------------------------
class Encoder {
 public:
  // Appends to `out`. The caller owns it, and must not resize it while the Encoder exists, or look at it
  // while a Batch exists. XDR position 0 is the present end of `out`, so a record mark or transport header
  // may precede it.
  explicit Encoder(ByteVector& out, std::vector<Bulk>* bulks = nullptr)
      : out_(out), bulks_(bulks), start_(out.size()), end_(out.size()) {}
  Encoder(const Encoder&) = delete;
  Encoder& operator=(const Encoder&) = delete;

  // While a Batch exists, `out` is longer than what was encoded, so that a word need not make room for
  // itself. (One word alone costs 60 instructions, 10 in a Batch; 2026-11-30.)
  class Batch {
   public:
    explicit Batch(Encoder& encoder) : encoder_(encoder) { ++encoder_.batches_; }
    ~Batch() {
      if (--encoder_.batches_ == 0) encoder_.trim();
    }
    Batch(const Batch&) = delete;
    Batch& operator=(const Batch&) = delete;

   private:
    Encoder& encoder_;
  };

  bool operator()(uint32_t v) { return put32(v); }
  bool operator()(int32_t v) { return put32(static_cast<uint32_t>(v)); }
  bool operator()(uint64_t v) { return put64(v); }
  bool operator()(int64_t v) { return put64(static_cast<uint64_t>(v)); }
  bool operator()(bool v) { return put32(v ? 1 : 0); }
  template <XdrEnum E>
  bool operator()(E v) {
    return put32(static_cast<uint32_t>(v));
  }
  template <class T>
  requires requires(Encoder& x, const T& v) { xdr(x, v); }
  bool operator()(const T& v) {
    const Batch batch(*this);
    return xdr(*this, v);
  }

  bool fixed(ConstBytes bytes) {  // opaque[n]
    if (!ok_) return false;
    if (bytes.empty()) return true;
    const size_t padded = xdr_padded(bytes.size());
    std::byte* const to = take(padded);
    store_be32(to + padded - 4, 0);  // the padding is zeros (RFC 4506 section 3)
    std::memcpy(to, bytes.data(), bytes.size());
    return taken();
  }
  bool opaque(ConstBytes bytes, size_t max);  // opaque<max>: length, bytes, padding
  bool bulk(ConstBytes bytes, size_t max);    // length inline, data recorded as a Bulk
  bool raw(ConstBytes bytes) {                // already encoded XDR, a multiple of four bytes
    if (bytes.size() % 4 != 0) return fail("raw XDR is not a multiple of four bytes");
    return fixed(bytes);
  }
  bool fail(const char* what);

  // Overwrites four bytes that were encoded before, for example a count that is known only later.
  // `inline_offset` is the value of inline_bytes() when they were encoded.
  bool patch(size_t inline_offset, uint32_t v);

  bool ok() const { return ok_; }
  const char* failure() const { return failure_; }
  // XDR position: inline bytes so far plus bulk bytes with their padding.
  size_t position() const { return inline_bytes() + bulk_bytes_; }
  size_t inline_bytes() const { return end_ - start_; }

 private:
  bool put32(uint32_t v) {
    if (!ok_) return false;
    store_be32(take(4), v);
    return taken();
  }
  bool put64(uint64_t v) { return put32(static_cast<uint32_t>(v >> 32)) && put32(static_cast<uint32_t>(v)); }

  // The place of the next `n` bytes. taken() ends the writing. The place exists even if the caller has
  // shortened `out`: then out_.size() < end_.
  std::byte* take(size_t n) {
    if (out_.size() < end_ + n) [[unlikely]]
      grow(n);
    return out_.data() + std::exchange(end_, end_ + n);
  }
  bool taken() {
    if (batches_ == 0) trim();
    return true;
  }
  void grow(size_t n);
  void trim() { out_.resize(end_); }

  ByteVector& out_;
  std::vector<Bulk>* bulks_;  // null: bulk items are copied inline
  size_t start_;
  size_t end_;  // of what is encoded; during a Batch out_ is longer
  unsigned batches_ = 0;
  size_t bulk_bytes_ = 0;
  bool ok_ = true;
  const char* failure_ = "";
};

// ---------------------------------------------------------------------------------------------------------
class Sizer {
 public:
  // Does nothing. It exists so that code with a Batch works with the Encoder and with the Sizer.
  struct Batch {
    explicit Batch(Sizer&) {}
  };

  bool operator()(uint32_t) { return add(4); }
  bool operator()(int32_t) { return add(4); }
  bool operator()(uint64_t) { return add(8); }
  bool operator()(int64_t) { return add(8); }
  bool operator()(bool) { return add(4); }
  template <XdrEnum E>
  bool operator()(E) {
    return add(4);
  }
  template <class T>
  requires requires(Sizer& x, const T& v) { xdr(x, v); }
  bool operator()(const T& v) { return xdr(*this, v); }

  bool fixed(ConstBytes bytes) { return add(xdr_padded(bytes.size())); }
  bool opaque(ConstBytes bytes, size_t) { return add(4 + xdr_padded(bytes.size())); }
  bool bulk(ConstBytes bytes, size_t) {
    bulk_bytes_ += xdr_padded(bytes.size());
    return add(4);
  }
  bool raw(ConstBytes bytes) { return add(bytes.size()); }
  bool fail(const char*) { return false; }

  bool ok() const { return true; }
  size_t inline_bytes() const { return inline_bytes_; }
  size_t bulk_bytes() const { return bulk_bytes_; }
  size_t total() const { return inline_bytes_ + bulk_bytes_; }

 private:
  bool add(size_t n) {
    inline_bytes_ += n;
    return true;
  }
  size_t inline_bytes_ = 0;
  size_t bulk_bytes_ = 0;
};

// ---------------------------------------------------------------------------------------------------------
class Decoder {
 public:
  // Decodes `in`. Decoded views point into it.
  explicit Decoder(ConstBytes in) : in_(in) {}

  // Sets the next bulk item: its bytes are not in `in` but already at `data`, where the transport has
  // received them. The item's length in the message must equal data.size(); the transport has consumed its
  // padding.
  void set_bulk(ConstBytes data) { bulk_ = data; }

  bool operator()(uint32_t& v) { return get32(v); }
  bool operator()(int32_t& v);
  bool operator()(uint64_t& v);
  bool operator()(int64_t& v);
  bool operator()(bool& v);  // RFC 4506 section 4.4: values other than 0 and 1 are an error
  // Accepts every value. The xdr() function of the type that contains the enum rejects what the RFC does not
  // define, for example an unknown arm of a union.
  template <XdrEnum E>
  bool operator()(E& v) {
    uint32_t raw = 0;
    if (!get32(raw)) return false;
    v = static_cast<E>(raw);
    return true;
  }
  template <class T>
  requires requires(Decoder& x, T& v) { xdr(x, v); }
  bool operator()(T& v) { return xdr(*this, v); }

  bool fixed(MutableBytes bytes);
  // A view of opaque<max>. The padding must exist; its value is not checked, because peers differ.
  bool opaque(ConstBytes& view, size_t max);
  bool bulk(ConstBytes& view, size_t max);
  bool skip(size_t bytes);
  bool fail(const char* what);

  // The count of an array. Checked: count <= max, and count * min_element_bytes <= the bytes left.
  bool count(uint32_t& n, size_t max, size_t min_element_bytes);

  bool ok() const { return ok_; }
  const char* failure() const { return failure_; }
  size_t position() const { return pos_; }
  size_t left() const { return in_.size() - pos_; }
  ConstBytes rest() const { return in_.subspan(pos_); }

 private:
  bool get32(uint32_t& v) {
    if (!need(4)) return false;
    v = load_be32(in_.data() + pos_);
    pos_ += 4;
    return true;
  }
  bool need(size_t n) { return ok_ && (n <= left() || fail("truncated")); }

  ConstBytes in_;
  size_t pos_ = 0;
  bool ok_ = true;
  const char* failure_ = "";
  std::optional<ConstBytes> bulk_;
};

// ---------------------------------------------------------------------------------------------------------
// Building blocks for type descriptions. Each works with Encoder, Decoder and Sizer.

// opaque<max> or string<max> as a std::string or ByteVector; decoding copies.
template <class X, class Container>
bool bytes(X& x, Container& v, size_t max) {
  if constexpr (kDecodes<X>) {
    ConstBytes view;
    if (!x.opaque(view, max)) return false;
    v.assign(reinterpret_cast<const typename Container::value_type*>(view.data()),
             reinterpret_cast<const typename Container::value_type*>(view.data()) + view.size());
    return true;
  } else {
    return x.opaque(std::as_bytes(std::span(v.data(), v.size())), max);
  }
}

// opaque<max> as a ConstBytes view; a decoded view points into the input.
template <class X, class V>
bool view(X& x, V& v, size_t max) {
  return x.opaque(v, max);
}

// opaque[N].
template <class X, class Array>
bool fixed(X& x, Array& v) {
  if constexpr (kDecodes<X>) {
    return x.fixed(std::as_writable_bytes(std::span(v)));
  } else {
    return x.fixed(std::as_bytes(std::span(v)));
  }
}

// T array<max>; min_element_bytes bounds the allocation by the bytes left.
template <class X, class Vec>
bool array(X& x, Vec& v, size_t max, size_t min_element_bytes = 4) {
  if constexpr (kDecodes<X>) {
    uint32_t n = 0;
    if (!x.count(n, max, min_element_bytes)) return false;
    v.clear();
    v.reserve(std::min<size_t>(n, 64));  // further growth follows the elements that really decode
    for (uint32_t i = 0; i < n; ++i) {
      if (!x(v.emplace_back())) return false;
    }
    return true;
  } else {
    if (v.size() > max) return x.fail("array too long");
    if (!x(static_cast<uint32_t>(v.size()))) return false;
    for (const auto& e : v) {
      if (!x(e)) return false;
    }
    return true;
  }
}

// T* v ("optional-data", RFC 4506 section 4.19).
template <class X, class T>
bool optional(X& x, T& v) {
  if constexpr (kDecodes<X>) {
    bool present = false;
    if (!x(present)) return false;
    if (!present) {
      v.reset();
      return true;
    }
    return x(v.emplace());
  } else {
    return x(v.has_value()) && (!v || x(*v));
  }
}

// Decode all of `in` as one T; trailing bytes are an error.
template <class T>
Result<T> decode(ConstBytes in, const char* what) {
  Decoder x(in);
  T v{};
  if (!x(v))
    return ::nfsrdma::fail({.layer = Layer::kXdr,
                            .recovery = Recovery::kPermanent,
                            .errnum = 5,
                            .op = what,
                            .cause = x.failure()});
  if (x.left() != 0)
    return ::nfsrdma::fail({.layer = Layer::kXdr,
                            .recovery = Recovery::kPermanent,
                            .errnum = 5,
                            .op = what,
                            .cause = "trailing bytes"});
  return v;
}

template <class T>
size_t size_of(const T& v) {
  Sizer s;
  s(v);
  return s.total();
}

}  // namespace nfsrdma::xdr
