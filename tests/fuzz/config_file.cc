// SPDX-License-Identifier: Apache-2.0
// Fuzz entry: the text of a configuration file, and the options that one mount gets from it.
//
// Checked: a refusal names file and line. Names are lower case and not empty. Sections that are written to a
// file and read again are the same. The options for a mount come from the file, and the option parser accepts
// their form.
#include "cli/options/config_file.h"

#include <fmt/core.h>

#include <algorithm>

#include "tests/fuzz/text.h"

namespace {

using namespace nfsrdma;  // NOLINT: used throughout this file
using cli::Config;
using cli::ConfigSection;
using fuzz::require;

std::string header_of(const ConfigSection& section) {
  switch (section.origin) {
    case cli::OptionOrigin::kServer: return fmt::format("[ Server \"{}\" ]\n", section.name);
    case cli::OptionOrigin::kMountPoint: return fmt::format("[ MountPoint \"{}\" ]\n", section.name);
    default: return "[ NFSMount_Global_Options ]\n";
  }
}

std::string file_of(const Config& config) {
  std::string text;
  for (const ConfigSection& section : config.sections) {
    text += header_of(section);
    for (const cli::OptionLayer& layer : section.options) {
      const std::string& name = layer.option.name;
      text +=
          layer.option.value ? fmt::format("{} = \"{}\"\n", name, *layer.option.value) : name + " = True\n";
    }
  }
  return text;
}

bool same_option(const cli::OptionLayer& a, const cli::OptionLayer& b) {
  return a.origin == b.origin && a.option == b.option;
}

bool same_section(const ConfigSection& a, const ConfigSection& b) {
  return a.origin == b.origin && a.name == b.name &&
         std::equal(a.options.begin(), a.options.end(), b.options.begin(), b.options.end(), same_option);
}

void check_option(const ConfigSection& section, const cli::OptionLayer& layer) {
  const std::string& name = layer.option.name;
  require(layer.origin == section.origin && layer.where.starts_with("file:"),
          "an option knows where it stands");
  require(!name.empty(), "every option has a name");
  require(std::none_of(name.begin(), name.end(), [](char c) { return c >= 'A' && c <= 'Z'; }),
          "in lower case");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Config config;
  const auto done = cli::parse_config(fuzz::text_of(data, size), "file", config);
  fuzz::require_reason(done, cli::MountExit::kUsage);
  require(done || done.error().text.starts_with("file:"), "a refusal names the line");
  size_t options = 0;
  for (const ConfigSection& section : config.sections) {
    options += section.options.size();
    for (const cli::OptionLayer& layer : section.options) check_option(section, layer);
  }
  Config again;
  require(cli::parse_config(file_of(config), "file", again).has_value(), "what was read can be written");
  require(std::equal(config.sections.begin(), config.sections.end(), again.sections.begin(),
                     again.sections.end(), same_section),
          "and is read as the same");
  const auto layers = config.select("server", "/mnt");
  require(layers.size() <= options, "a mount takes nothing that is not there");
  fuzz::require_reason(cli::parse_options(layers, true), cli::MountExit::kUsage);
  return 0;
}
