// SPDX-License-Identifier: Apache-2.0
#include "cli/tool/command_outline.h"

#include <CLI/CLI.hpp>

#include <memory>

#include "cli/options/option_table.h"

namespace nfsrdma::cli {
namespace {

// one_of() stores its words in the validator's name.
std::vector<std::string> words_of(CLI::Option& option) {
  try {
    std::vector<std::string> words;
    for (const std::string_view word : split_words(option.get_validator(0)->get_name()))
      words.emplace_back(word);
    return words;
  } catch (const CLI::OptionNotFound&) {
    return {};
  }
}

OutlinedOption option_of(CLI::Option& option) {
  OutlinedOption out;
  for (const std::string& letter : option.get_snames()) out.names.push_back("-" + letter);
  for (const std::string& word : option.get_lnames()) out.names.push_back("--" + word);
  if (option.get_items_expected_max() != 0) {
    out.placeholder = option.get_type_name();
    // CLI11's names for C++ types.
    if (out.placeholder == "UINT" || out.placeholder == "FLOAT" || out.placeholder == "INT")
      out.placeholder = "N";
    if (out.placeholder == "TEXT" || out.placeholder.empty()) out.placeholder = "WORD";
  }
  out.help = option.get_description();
  out.fallback = option.get_default_str();
  out.words = words_of(option);
  return out;
}

OutlinedArgument argument_of(const CLI::App& app, const CLI::Option& option) {
  const auto formatter = std::dynamic_pointer_cast<CLI::Formatter>(app.get_formatter());
  return {option.get_name(true, false), option.get_description(), formatter->make_option_usage(&option)};
}

}  // namespace

CommandOutline outline_of(const CLI::App& app) {
  CommandOutline out{
      .name = app.get_name(), .help = app.get_description(), .options = {}, .arguments = {}, .verbs = {}};
  const bool verb = app.get_parent() != nullptr;
  for (const CLI::Option* found : app.get_options()) {
    // get_validator() changes nothing, but is not const.
    CLI::Option& option = const_cast<CLI::Option&>(*found);
    if (verb && found == app.get_help_ptr()) continue;
    if (option.get_positional()) {
      out.arguments.push_back(argument_of(app, option));
    } else {
      out.options.push_back(option_of(option));
    }
  }
  for (const CLI::App* sub : app.get_subcommands({})) out.verbs.push_back(outline_of(*sub));
  return out;
}

}  // namespace nfsrdma::cli
