// SPDX-License-Identifier: Apache-2.0
#include "cli/options/config_file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "cli/options/option_table.h"
#include "transport/runtime/fd.h"

namespace nfsrdma::cli {
namespace {

// Far above any real file. Stops the reading of a device or a log that was given by mistake.
constexpr size_t kMaxFileBytes = 1 << 20;

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

bool same(std::string_view a, std::string_view b) {
  return lower(a) == lower(b);
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\v\f";
  const size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

// Removes surrounding double quotes, if any.
std::string_view unquote(std::string_view text) {
  if (text.size() >= 2 && text.front() == '"' && text.back() == '"') return text.substr(1, text.size() - 2);
  return text;
}

class Parser {
 public:
  Parser(std::string_view file, Config& config) : file_(file), config_(config) {}

  Outcome<> line(std::string_view text) {
    ++number_;
    text = trim(text);
    if (text.empty() || text.front() == '#' || text.front() == ';') return {};
    return text.front() == '[' ? header(text) : assignment(text);
  }

 private:
  std::string where() const { return fmt::format("{}:{}", file_, number_); }
  tl::unexpected<Failure> bad(std::string_view why) const {
    return refuse(MountExit::kUsage, fmt::format("{}: {}", where(), why));
  }

  Outcome<> header(std::string_view text) {
    if (text.back() != ']') return bad("the section's name is not closed with ']'");
    const std::string_view inner = trim(text.substr(1, text.size() - 2));
    const size_t quote = inner.find('"');
    const std::string_view kind = trim(inner.substr(0, quote));
    const std::string_view name =
        quote == std::string_view::npos ? std::string_view{} : unquote(inner.substr(quote));
    ConfigSection section;
    section.name = name;
    if (same(kind, "NFSMount_Global_Options") && quote == std::string_view::npos) {
      section.origin = OptionOrigin::kGlobal;
    } else if (same(kind, "Server") && !name.empty() && name.find('"') == std::string_view::npos) {
      section.origin = OptionOrigin::kServer;
    } else if (same(kind, "MountPoint") && !name.empty() && name.find('"') == std::string_view::npos) {
      section.origin = OptionOrigin::kMountPoint;
    } else {
      return bad(
          "the sections are [ NFSMount_Global_Options ], [ Server \"NAME\" ] and [ MountPoint \"DIR\" ]");
    }
    config_.sections.push_back(std::move(section));
    in_section_ = true;
    return {};
  }

  Outcome<> assignment(std::string_view text) {
    if (!in_section_) return bad("an option must stand below a section");
    const size_t equals = text.find('=');
    if (equals == std::string_view::npos)
      return bad(fmt::format("\"{}\" is not of the form option = value", text));
    std::string name = lower(trim(text.substr(0, equals)));
    const std::string_view value = unquote(trim(text.substr(equals + 1)));
    if (name.empty()) return bad("the option's name is missing");
    if (name == "background") name = "bg";
    if (name == "foreground") name = "fg";
    return add(std::move(name), value);
  }

  Outcome<> add(std::string name, std::string_view value) {
    if (option_name(name) == "conf") return bad("conf is for the command line; it cannot be changed here");
    const OptionMatch match = find_option(name);
    OptionLayer layer{config_.sections.back().origin, where(), {std::move(name), std::string(value)}};
    if (match.spec != nullptr && match.spec->kind == OptionKind::kSwitch) {
      const bool on = same(value, "true");
      if (!on && !same(value, "false")) {
        return bad(
            fmt::format("{} is a switch: write {} = True or False", layer.option.name, layer.option.name));
      }
      if (!on) {
        // Store the opposite switch. A switch without an opposite is off unless an earlier section turns it
        // on.
        const std::string_view opposite = match.negated ? match.spec->name : match.spec->off;
        if (opposite.empty())
          return bad(fmt::format("{} cannot be switched off; leave it out", layer.option.name));
        layer.option.name = opposite;
      }
      layer.option.value.reset();
    } else if (match.spec != nullptr && !match.spec->words.empty()) {
      layer.option.value = lower(value);
    }
    config_.sections.back().options.push_back(std::move(layer));
    return {};
  }

  std::string file_;
  Config& config_;
  size_t number_ = 0;
  bool in_section_ = false;
};

Outcome<std::string> read_text(const std::string& file) {
  const auto failed = [&](int error) {
    return refuse(MountExit::kUsage, fmt::format("{}: {}", file, std::strerror(error)));
  };
  const Fd fd(open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd) return failed(errno);
  std::string text;
  char buffer[4096];
  while (text.size() <= kMaxFileBytes) {
    const ssize_t n = read(fd.get(), buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return failed(errno);
    if (n == 0) return text;
    text.append(buffer, static_cast<size_t>(n));
  }
  return refuse(MountExit::kUsage, fmt::format("{}: larger than {} bytes", file, kMaxFileBytes));
}

Outcome<> add_file(const std::string& file, Config& config) {
  auto text = read_text(file);
  if (!text) return tl::unexpected(std::move(text).error());
  return parse_config(*text, file, config);
}

std::vector<std::string> conf_files(const std::string& directory) {
  std::vector<std::string> files;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with('.') && name.ends_with(".conf")) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

Outcome<> parse_config(std::string_view text, std::string_view file, Config& config) {
  Parser parser(file, config);
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    if (auto done = parser.line(text.substr(0, end)); !done) return done;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return {};
}

std::vector<OptionLayer> Config::select(std::string_view host, std::string_view mount_point) const {
  std::vector<OptionLayer> layers;
  for (const OptionOrigin origin :
       {OptionOrigin::kGlobal, OptionOrigin::kServer, OptionOrigin::kMountPoint}) {
    const std::string_view name = origin == OptionOrigin::kGlobal   ? std::string_view{}
                                  : origin == OptionOrigin::kServer ? host
                                                                    : mount_point;
    for (const ConfigSection& section : sections) {
      if (section.origin != origin || !same(section.name, name)) continue;
      layers.insert(layers.end(), section.options.begin(), section.options.end());
    }
  }
  return layers;
}

Outcome<Config> read_default_config(const std::string& file, const std::string& directory) {
  Config config;
  if (access(file.c_str(), F_OK) == 0) {
    if (auto done = add_file(file, config); !done) return tl::unexpected(std::move(done).error());
  }
  for (const std::string& part : conf_files(directory)) {
    if (auto done = add_file(part, config); !done) return tl::unexpected(std::move(done).error());
  }
  return config;
}

Outcome<Config> read_config_file(const std::string& file) {
  Config config;
  if (auto done = add_file(file, config); !done) return tl::unexpected(std::move(done).error());
  return config;
}

}  // namespace nfsrdma::cli
