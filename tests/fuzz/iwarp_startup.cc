// SPDX-License-Identifier: Apache-2.0
// Fuzz entry: the first bytes of a peer, read by either side of the MPA start-up.
//
// Checked: a decoded frame encodes to a frame that decodes to the same. The agreed values are within what
// both sides offered.
//
// Input: one byte (bit 0: we are the active side, bit 1: we want CRCs), then the frame.

#include "tests/fuzz/fuzz.h"
#include "transport/fabric/iwarp/mpa.h"

namespace {

using namespace nfsrdma;                 // NOLINT
using namespace nfsrdma::fabric::iwarp;  // NOLINT
using Kind = StartupFrame::Kind;

constexpr uint16_t kDepth = 16;

void answer(const StartupTerms& terms, const StartupFrame& request) {
  const auto a = make_answer(terms, request);
  fuzz::require(known_revision(request) || !a, "only known revisions are answered");
  if (!a) return;
  fuzz::require(!request.markers, "markers are refused");
  fuzz::require(a->agreed.crc == (terms.crc || request.crc), "CRCs if either side asks");
  fuzz::require(a->agreed.ird <= kDepth && a->agreed.ord <= kDepth, "depths are at most ours");
  const auto again = decode_startup(encode(a->reply), Kind::kReply);
  fuzz::require(again && *again == a->reply, "our reply can be read");
}

void judge(const StartupTerms& terms, const StartupFrame& reply) {
  const auto agreed = judge_reply(terms, reply);
  if (!agreed) return;
  fuzz::require(!reply.rejected && !reply.markers, "a refusal is one");
  fuzz::require(agreed->ird == kDepth && agreed->ord <= kDepth, "depths are at most ours");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const Kind kind = (data[0] & 1) != 0 ? Kind::kReply : Kind::kRequest;
  const ConstBytes input = fuzz::bytes_of(data + 1, size - 1);
  const auto more = private_data_bytes(input, kind);
  fuzz::require(!more || *more <= kMaxPrivateData, "private data have their limit");
  const auto frame = decode_startup(input, kind);
  if (!frame) return 0;
  fuzz::require(more.has_value(), "a frame has a header");
  const auto again = decode_startup(encode(*frame), kind);
  fuzz::require(again && *again == *frame, "what was read comes back");
  const StartupTerms terms{(data[0] & 2) != 0, kDepth, kDepth, ByteVector(8)};
  if (kind == Kind::kRequest) {
    answer(terms, *frame);
  } else {
    judge(terms, *frame);
  }
  return 0;
}
