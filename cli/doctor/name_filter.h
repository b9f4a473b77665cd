// SPDX-License-Identifier: Apache-2.0
// NameFilter: replaces names of files, hosts, exports and users in a text that strangers may read.
//
// There are two rules. Names that are known beforehand (add()) become "server-1", "export-1"... everywhere.
// In the remaining text only numbers and words of the program's own vocabulary stay. Every other word becomes
// "name-N", or "path-N" if it contains a slash. Within one NameFilter the same name always has the same
// substitute. One thread.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "cli/control/control_protocol.h"

namespace nfsrdma::cli::doctor {

class NameFilter {
 public:
  // `vocabulary`: words that may stay, in lower case.
  explicit NameFilter(std::set<std::string, std::less<>> vocabulary) : vocabulary_(std::move(vocabulary)) {}

  // Ignores empty names and "/".
  void add(std::string_view kind, const std::string& name);
  // Filters a text line by line.
  std::string text(std::string_view in);
  // Filters every string value; keys stay.
  Json json(const Json& in);

 private:
  std::string word(std::string_view in);
  std::string stand_in(std::string_view kind, const std::string& name);

  const std::set<std::string, std::less<>> vocabulary_;
  std::map<std::string, std::string, std::less<>> known_;  // name: stand-in
  std::map<std::string, unsigned, std::less<>> counts_;    // by kind
};

// The words in a program file, which are all that it can print by itself, and those of the system's error
// messages.
std::set<std::string, std::less<>> words_of_program(const std::string& path);
std::set<std::string, std::less<>> words_of(std::string_view bytes);

}  // namespace nfsrdma::cli::doctor
