// SPDX-License-Identifier: Apache-2.0
// Runs a fuzz entry with stored inputs, without libFuzzer: `NAME_replay FILE-OR-DIRECTORY...`.
//
// Each input is copied to a block of its own size, so that a sanitizer sees a read beyond its end. For small
// inputs every prefix is run too, so a corpus is also a truncation test. An empty corpus is a failure.

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

constexpr size_t kSmall = 512;

void run(const std::vector<uint8_t>& input) {
  // An allocation of just this size, so that ASan sees a read behind it.
  // NOLINTNEXTLINE(performance-unnecessary-copy-initialization)
  const std::vector<uint8_t> exact(input);
  LLVMFuzzerTestOneInput(exact.data(), exact.size());
}

bool replay(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) {
    std::fprintf(stderr, "cannot read %s\n", file.c_str());
    return false;
  }
  std::vector<uint8_t> input{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  std::printf("%s (%zu bytes)\n", file.c_str(), input.size());
  std::fflush(stdout);  // so that the last line names the input that crashed
  run(input);
  for (size_t n = 0; input.size() <= kSmall && n < input.size(); ++n) {
    run({input.begin(), input.begin() + static_cast<ptrdiff_t>(n)});
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  size_t inputs = 0;
  for (int i = 1; i < argc; ++i) {
    if (!std::filesystem::is_directory(argv[i])) {
      if (!replay(argv[i])) return 1;
      ++inputs;
      continue;
    }
    for (const auto& entry : std::filesystem::directory_iterator(argv[i])) {
      if (!replay(entry.path())) return 1;
      ++inputs;
    }
  }
  if (inputs == 0) {
    std::fprintf(stderr, "no inputs\n");
    return 1;
  }
  std::printf("%zu inputs\n", inputs);
  return 0;
}
