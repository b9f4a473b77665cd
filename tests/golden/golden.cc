// SPDX-License-Identifier: Apache-2.0
#include "tests/golden/golden.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace nfsrdma::golden {

namespace {

Kind kind_of(std::string_view name) {
  if (name.ends_with("_cb_call")) return Kind::kCallbackCall;
  if (name.ends_with("_cb_reply")) return Kind::kCallbackReply;
  if (name.ends_with("_call")) return Kind::kCall;
  if (name.ends_with("_reply")) return Kind::kReply;
  die("file name says neither call nor reply: " + std::string(name));
}

std::vector<Message> load() {
  std::vector<Message> all;
  for (const auto& file : std::filesystem::directory_iterator(NFSRDMA_GOLDEN_DIR)) {
    if (file.path().extension() != ".hex") continue;
    std::ifstream in(file.path());
    std::stringstream text;
    text << in.rdbuf();
    const std::string name = file.path().stem();
    all.push_back({name, kind_of(name), from_hex(text.str())});
  }
  std::ranges::sort(all, {}, &Message::name);
  return all;
}

}  // namespace

const std::vector<Message>& messages() {
  static const std::vector<Message> all = load();
  return all;
}

const Message& message(std::string_view name) {
  const auto found = std::ranges::find(messages(), name, &Message::name);
  if (found == messages().end()) die("no golden message " + std::string(name));
  return *found;
}

}  // namespace nfsrdma::golden
