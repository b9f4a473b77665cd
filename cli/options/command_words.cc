// SPDX-License-Identifier: Apache-2.0
#include "cli/options/command_words.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "cli/options/option_table.h"

namespace nfsrdma::cli {
namespace {

class PlainFormatter final : public CLI::Formatter {
 public:
  PlainFormatter() {
    label("Positionals", "Arguments");
    label("OPTIONS", "options");
    label("SUBCOMMAND", "COMMAND");
    label("Subcommands", "Commands");
    column_width(30);
  }

  // "-f, --force".
  std::string make_option_name(const CLI::Option* option, bool positional) const override {
    // Option names cannot contain spaces or brackets, but the displayed text can.
    if (positional && !option->get_option_text().empty()) return option->get_option_text();
    if (positional) return option->get_name(true, false);
    std::string name;
    for (const std::string& letter : option->get_snames()) name += (name.empty() ? "-" : ", -") + letter;
    for (const std::string& word : option->get_lnames()) name += (name.empty() ? "--" : ", --") + word;
    return name;
  }

  // The placeholder alone.
  std::string make_option_opts(const CLI::Option* option) const override {
    if (option->get_positional() || option->get_type_size() == 0) return {};
    std::string type = option->get_type_name();
    // CLI11's names for C++ types.
    if (type == "TEXT") type = "WORD";
    if (type == "UINT" || type == "INT" || type == "FLOAT") type = "N";
    return type.empty() ? std::string() : " " + type;
  }

  std::string make_option_desc(const CLI::Option* option) const override {
    std::string text = option->get_description();
    if (!option->get_default_str().empty()) text += fmt::format(" (default {})", option->get_default_str());
    return text;
  }

  std::string make_option_usage(const CLI::Option* option) const override {
    std::string name = make_option_name(option, true);
    if (name.starts_with('[')) return name;  // the text shows itself which parts are optional
    if (option->get_expected_max() >= CLI::detail::expected_max_vector_size) name += "...";
    return option->get_required() ? name : fmt::format("[{}]", name);
  }

  // Omits CLI11's "[Exactly 1 of the following options is required]".
  std::string make_description(const CLI::App* app) const override { return app->get_description() + "\n"; }
};

// Returns the text after `mark`; CLI11 puts the option's name in front of it.
std::string behind(const std::string& text, std::string_view mark) {
  const size_t at = text.find(mark);
  return at == std::string::npos ? std::string() : text.substr(at + mark.size());
}

std::string nearest_flag(const CLI::App& verb, const std::string& given) {
  std::vector<std::string> names;
  for (const CLI::Option* option : verb.get_options()) {
    for (const std::string& word : option->get_lnames()) names.push_back("--" + word);
  }
  return nearest_word(given, {names.begin(), names.end()});
}

// The argument to report as unknown: the first word that begins with '-', else the first word. A word before
// or after an unknown option may be its value.
std::string word_to_name(const std::string& words) {
  const size_t flag = words.starts_with('-') ? 0 : words.find(" -");
  const size_t begin = flag == std::string::npos ? 0 : words.find_first_not_of(' ', flag);
  return words.substr(begin, words.find(' ', begin) - begin);
}

std::string unexpected(const CLI::App& verb, const std::string& rest) {
  const std::string word = word_to_name(rest);
  if (!word.starts_with('-')) return fmt::format("\"{}\" is one argument too many", word);
  const std::string flag = word.substr(0, word.find('='));
  const std::string nearest = nearest_flag(verb, flag);
  if (nearest.empty()) return fmt::format("there is no option {}", flag);
  return fmt::format("there is no option {}; did you mean {}?", flag, nearest);
}

std::string sentence(const CLI::App& verb, const CLI::ParseError& error) {
  const std::string text = error.what();
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) return unexpected(verb, behind(text, ": "));
  if (text == "A subcommand is required") return "a command is missing";
  if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr)
    return fmt::format("{} is missing", text.substr(0, text.find(' ')));
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr)
    return fmt::format("{} needs a value", text.substr(0, text.find(':')));
  if (dynamic_cast<const CLI::ConversionError*>(&error) != nullptr) {
    // "Could not convert: NAME = VALUE".
    const std::string what = behind(text, "Could not convert: ");
    const size_t equals = what.find(" = ");
    if (equals == std::string::npos) return text;
    return fmt::format("{}: \"{}\" is not a number", what.substr(0, equals), what.substr(equals + 3));
  }
  return text;
}

}  // namespace

void use_plain_words(CLI::App& app) {
  app.formatter(std::make_shared<PlainFormatter>());
  app.set_help_flag("-h,--help", "show this text");
}

CLI::Validator one_of(std::vector<std::string> words) {
  const std::string list = fmt::format("{}", fmt::join(words, ", "));
  const std::string name = fmt::format("{}", fmt::join(words, "|"));
  CLI::Validator check(
      [words = std::move(words), list](std::string& given) -> std::string {
        if (std::find(words.begin(), words.end(), given) != words.end()) return {};
        return fmt::format("\"{}\" is none of {}", given, list);
      },
      "");
  return check.name(name);  // not displayed; outline_of() reads it
}

CLI::Validator within(double least, double most) {
  return CLI::Validator(
      [=](std::string& given) -> std::string {
        double value = 0;
        if (CLI::detail::lexical_cast(given, value) && value >= least && value <= most) return {};
        return fmt::format("\"{}\" is not a number from {:g} to {:.10g}", given, least, most);
      },
      "");
}

std::string usage_text(const CLI::App& app, const CLI::ParseError& error, std::string_view help) {
  return fmt::format("{}; see '{} --help'", sentence(app, error), help);
}

}  // namespace nfsrdma::cli
