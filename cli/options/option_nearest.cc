// SPDX-License-Identifier: Apache-2.0
// "did you mean": finds the most similar name by edit distance.
#include <algorithm>
#include <vector>

#include "cli/options/option_table.h"

namespace nfsrdma::cli {
namespace {

// Damerau-Levenshtein (optimal string alignment): insert, delete, replace and swap of neighbours each cost 1.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before_last(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replace = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, replace});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before_last[j - 2] + 1);
      }
    }
    before_last = last;
    last = row;
  }
  return last[b.size()];
}

}  // namespace

std::string nearest_word(std::string_view given, const std::vector<std::string_view>& words) {
  // No name is similar to a word of more than 40 letters. The limit bounds the cost of hostile input.
  if (given.size() > 40) return {};
  std::string best;
  // A third of the letters may differ, at least one.
  size_t best_distance = std::max<size_t>(1, given.size() / 3) + 1;
  for (const std::string_view word : words) {
    if (word.empty()) continue;
    const size_t distance = edit_distance(given, word);
    if (distance >= best_distance) continue;
    best_distance = distance;
    best = word;
  }
  return best;
}

std::string nearest_option(std::string_view given) {
  std::vector<std::string_view> words;
  for (const OptionSpec& spec : option_table()) {
    // A prefix such as x-* has no similar names.
    if (spec.kind == OptionKind::kRefused || spec.name.ends_with('*')) continue;
    words.push_back(spec.name);
    words.push_back(spec.off);
    for (const std::string_view alias : split_words(spec.aliases)) words.push_back(alias);
  }
  return nearest_word(option_name(given), words);
}

}  // namespace nfsrdma::cli
