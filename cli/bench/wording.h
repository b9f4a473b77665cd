// SPDX-License-Identifier: Apache-2.0
// Phrases comparisons as sentences: "RDMA is 12 % slower than TCP for read (range 10 to 15 %)." Pure.
#pragma once

#include <string>
#include <vector>

#include "cli/bench/document.h"
#include "cli/bench/quantity.h"
#include "cli/bench/statistics.h"

namespace nfsrdma::cli::bench {

// The ratio of/over for one metric or at one point of an axis.
struct Compared {
  std::string place;  // "read", "4 KiB"; empty: for the pair as a whole
  Ratio ratio;
};

// Sentences that say where `pair.of` has more of the quantity, less or as much, and where this is undecided.
// `before` precedes places ("for "), `lead` precedes the first sentence ("At their best, "). Empty if nothing
// was compared.
std::string compared_sentences(const Quantity& quantity, const Pair& pair, const std::string& before,
                               const std::vector<Compared>& all, const std::string& lead = "");

struct Reached {
  std::string place;
  double value = 0;
};

// "/mnt/files reaches 120 MiB/s for read and 90.0 MiB/s for write."
std::string reached_sentence(const Quantity& quantity, const std::string& who, const std::string& before,
                             const std::vector<Reached>& all);

// The number of a map's points where each contender of the pair is better.
struct MapCount {
  size_t all = 0, of = 0, over = 0, spread = 0, too_few = 0;
};
std::string map_sentence(const Quantity& quantity, const Pair& pair, const MapCount& count);

// A name or a metric for use in a sentence: quoted if it contains a comma.
std::string in_sentence(const std::string& name);

// "a", "a and b", "a, b and c".
std::string listed(const std::vector<std::string>& parts);

}  // namespace nfsrdma::cli::bench
