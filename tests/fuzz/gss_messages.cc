// SPDX-License-Identifier: Apache-2.0
// Fuzz entry: MICs and wrapped messages as either end of a context receives them: any bytes, or true ones
// that were changed on the way. Kept contexts, no KDC. The library itself has no coverage feedback; what
// counts is that nothing crashes and that nothing changed is believed.

#include <algorithm>

#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/input.h"
#include "tests/unit/support/kept_contexts.h"

namespace {

using namespace nfsrdma;  // NOLINT

struct Ends {
  const gss::Context& from;
  const gss::Context& to;
};

void receive_anything(const Ends& ends, fuzz::Input& input) {
  const ConstBytes message = input.bytes(input.byte());
  const ConstBytes rest = input.bytes(SIZE_MAX);
  const ConstBytes pieces[] = {message};
  ByteVector token(rest.begin(), rest.end());
  (void)ends.to.verify(pieces, token);
  (void)ends.to.unwrap(token);
}

// In pieces at one end, whole at the other.
void receive_a_changed_mic(const Ends& ends, fuzz::Input& input) {
  const size_t first = input.byte();
  const ConstBytes message = input.bytes(fuzz::size_of(input.byte()));
  const ConstBytes cut[] = {message.first(std::min(first, message.size())),
                            message.subspan(std::min(first, message.size()))};
  auto mic = ends.from.sign(cut);
  fuzz::require(mic.has_value(), "an established context signs");
  const ByteVector honest = *mic;
  input.spoil(*mic);
  const ConstBytes whole[] = {message};
  fuzz::require(ends.to.verify(whole, *mic).has_value() == (*mic == honest), "a changed MIC is no MIC");
}

void receive_a_changed_message(const Ends& ends, fuzz::Input& input) {
  const ConstBytes message = input.bytes(fuzz::size_of(input.byte()));
  const ConstBytes pieces[] = {message};
  ByteVector token(ends.from.wrapped_bytes(message.size()));
  fuzz::require(ends.from.wrap(pieces, token).has_value(), "an established context wraps");
  const ByteVector honest = token;
  input.spoil(token);
  const bool changed = token != honest;
  const auto plain = ends.to.unwrap(token);
  fuzz::require(plain || changed, "a true message is read");
  if (plain) fuzz::require(std::ranges::equal(*plain, message), "as what it was");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto kept = test::kept_contexts();
  if (!kept) return 0;  // another version's form
  fuzz::Input input(data, size);
  const uint8_t choice = input.byte();
  const Ends ends =
      (choice & 1) != 0 ? Ends{kept->initiator, kept->acceptor} : Ends{kept->acceptor, kept->initiator};
  switch (choice / 2 % 3) {
    case 0: receive_anything(ends, input); break;
    case 1: receive_a_changed_mic(ends, input); break;
    case 2: receive_a_changed_message(ends, input); break;
  }
  return 0;
}
