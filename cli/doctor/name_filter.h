// SPDX-License-Identifier: Apache-2.0
// NameFilter: takes names of files, hosts, exports and users out of a text that shall be shown to strangers.
//
// Two rules. Names that are known beforehand (add()) become "server-1", "export-1"... wherever they stand. Of
// the rest only words of the program's own vocabulary stay, and numbers; every other word becomes "name-N",
// one with a slash in it "path-N". The same name has the same stand-in throughout one NameFilter. One thread.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "cli/control_protocol.h"

namespace nfsrdma::cli::doctor {

class NameFilter {
 public:
  // `vocabulary`: words that may stay, in lower case.
  explicit NameFilter(std::set<std::string, std::less<>> vocabulary) : vocabulary_(std::move(vocabulary)) {}

  // Empty names and "/" are not names.
  void add(std::string_view kind, const std::string& name);
  // Of a text, line by line.
  std::string text(std::string_view in);
  // Every string value; keys stay.
  Json json(const Json& in);

 private:
  std::string word(std::string_view in);
  std::string stand_in(std::string_view kind, const std::string& name);

  const std::set<std::string, std::less<>> vocabulary_;
  std::map<std::string, std::string, std::less<>> known_;  // name: stand-in
  std::map<std::string, unsigned, std::less<>> counts_;    // by kind
};

// The words in a program file: what it can say by itself. And those of the system's error messages.
std::set<std::string, std::less<>> words_of_program(const std::string& path);
std::set<std::string, std::less<>> words_of(std::string_view bytes);

}  // namespace nfsrdma::cli::doctor
