#include "tests/golden/golden.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace nfsrdma::golden {

namespace {

[[noreturn]] void die(const std::string& what) {
  std::fprintf(stderr, "golden: %s\n", what.c_str());
  std::abort();
}

int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

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

ByteVector from_hex(std::string_view text) {
  ByteVector bytes;
  int high = -1;
  bool comment = false;
  for (const char c : text) {
    if (c == '#') comment = true;
    if (c == '\n') comment = false;
    if (comment || c == ' ' || c == '\n' || c == '\t') continue;
    const int value = digit(c);
    if (value < 0) die(std::string("not a hexadecimal digit: ") + c);
    if (high < 0) {
      high = value;
    } else {
      bytes.push_back(static_cast<std::byte>(high << 4 | value));
      high = -1;
    }
  }
  if (high >= 0) die("odd number of hexadecimal digits");
  return bytes;
}

std::string to_hex(const ByteVector& bytes) {
  std::string text;
  for (size_t i = 0; i < bytes.size(); ++i) {
    constexpr const char* kDigits = "0123456789abcdef";
    if (i != 0 && i % 4 == 0) text += ' ';
    text += kDigits[std::to_integer<unsigned>(bytes[i]) >> 4];
    text += kDigits[std::to_integer<unsigned>(bytes[i]) & 15];
  }
  return text;
}

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
