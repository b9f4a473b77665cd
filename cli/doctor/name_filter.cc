// SPDX-License-Identifier: Apache-2.0
#include "cli/doctor/name_filter.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <fstream>
#include <iterator>

namespace nfsrdma::cli::doctor {
namespace {

constexpr int kErrnos = 134;

bool is_letter(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_';
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
// Characters of a word, so that "a" is not found in "data". Bytes of UTF-8 sequences belong to words.
bool in_word(char c) {
  return is_letter(c) || is_digit(c) || c == '-' || c == '.' || c == '/' || static_cast<signed char>(c) < 0;
}

std::string lower(std::string_view in) {
  std::string out(in);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

bool is_unit(std::string_view word) {
  static constexpr std::string_view kUnits[] = {"ns", "us",  "ms", "s",   "min", "B",
                                                "kB", "KiB", "MB", "MiB", "GB",  "GiB"};
  return std::find(std::begin(kUnits), std::end(kUnits), word) != std::end(kUnits);
}

// True for "12", "4.1", "0x1f", "100ms" and "64KiB"; false for "10.0.0.1".
bool is_number(std::string_view word) {
  if (word.starts_with("0x")) return word.find_first_not_of("0123456789abcdef", 2) == std::string_view::npos;
  const size_t digits = word.find_first_not_of("0123456789.-");
  if (digits == 0 || std::count(word.begin(), word.end(), '.') > 1) return false;
  if (digits == std::string_view::npos) return true;
  return is_digit(word[digits - 1]) && is_unit(word.substr(digits));
}

// System files that reports may name.
bool is_system_path(std::string_view word) {
  for (const std::string_view place :
       {"/dev/fuse", "/dev/infiniband", "/etc/fuse.conf", "/etc/hosts", "/etc/idmapd.conf", "/etc/nfs.conf",
        "/etc/resolv.conf", "/etc/exports", "/etc/security/", "/sys/", "/usr/bin/fusermount3",
        "/bin/fusermount3"}) {
    if (word.starts_with(place)) return true;
  }
  return false;
}

}  // namespace

std::string NameFilter::stand_in(std::string_view kind, const std::string& name) {
  if (const auto found = known_.find(name); found != known_.end()) return found->second;
  std::string made = fmt::format("{}-{}", kind, ++counts_[std::string(kind)]);
  known_.emplace(name, made);
  return made;
}

void NameFilter::add(std::string_view kind, const std::string& name) {
  if (!name.empty() && name != "/") stand_in(kind, name);
}

std::string NameFilter::word(std::string_view in) {
  if (in.empty() || is_number(in) || is_system_path(in)) return std::string(in);
  if (in.find('/') != std::string_view::npos && in != "/") return stand_in("path", std::string(in));
  // Dashes, dots and slashes join words. Each part must be in the vocabulary or a number.
  for (size_t at = 0; at < in.size();) {
    const size_t end = std::min(in.find_first_of("-./", at), in.size());
    const std::string_view part = in.substr(at, end - at);
    if (!part.empty() && !is_number(part) && vocabulary_.find(lower(part)) == vocabulary_.end())
      return stand_in("name", std::string(in));
    at = end + 1;
  }
  // Several dots after a leading digit: an IP address.
  if (std::count(in.begin(), in.end(), '.') > 1 && is_digit(in.front()))
    return stand_in("address", std::string(in));
  return std::string(in);
}

std::string NameFilter::text(std::string_view in) {
  // Longest first: "/export/home" before "/export".
  std::vector<std::pair<std::string, std::string>> known(known_.begin(), known_.end());
  std::stable_sort(known.begin(), known.end(),
                   [](const auto& a, const auto& b) { return a.first.size() > b.first.size(); });
  std::string out;
  for (size_t at = 0; at < in.size();) {
    const bool begins = at == 0 || !in_word(in[at - 1]) || in[at] == '/';
    const auto found = std::find_if(known.begin(), known.end(), [&](const auto& one) {
      if (!begins || in.substr(at, one.first.size()) != one.first) return false;
      const size_t end = at + one.first.size();
      // The match may end before '/', as a path below a known directory, or before the full stop of a
      // sentence.
      return end == in.size() || in[end] == '/' || !in_word(in[end]) ||
             (in[end] == '.' && (end + 1 == in.size() || !in_word(in[end + 1])));
    });
    if (found != known.end()) {
      out += found->second;
      at += found->first.size();
      continue;
    }
    if (!in_word(in[at])) {
      out += in[at++];
      continue;
    }
    size_t end = at;
    while (end < in.size() && in_word(in[end])) ++end;
    size_t last = end;  // excludes the full stop of a sentence
    while (last > at && in[last - 1] == '.') --last;
    out += word(in.substr(at, last - at));
    out += in.substr(last, end - last);
    at = end;
  }
  return out;
}

Json NameFilter::json(const Json& in) {
  if (in.is_string()) return text(in.get<std::string>());
  Json out = in;
  if (in.is_structured()) {
    for (auto& [key, value] : out.items()) value = json(value);
  }
  return out;
}

std::set<std::string, std::less<>> words_of(std::string_view bytes) {
  std::set<std::string, std::less<>> words;
  for (size_t at = 0; at < bytes.size();) {
    if (!is_letter(bytes[at])) {
      ++at;
      continue;
    }
    size_t end = at;
    while (end < bytes.size() && (is_letter(bytes[end]) || is_digit(bytes[end]))) ++end;
    words.insert(lower(bytes.substr(at, end - at)));
    at = end;
  }
  return words;
}

std::set<std::string, std::less<>> words_of_program(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  std::set<std::string, std::less<>> words = words_of(bytes);
  for (int number = 1; number < kErrnos; ++number) words.merge(words_of(std::strerror(number)));
  return words;
}

}  // namespace nfsrdma::cli::doctor
