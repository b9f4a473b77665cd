// SPDX-License-Identifier: Apache-2.0
// Plain English for the help texts and errors of CLI11, used by all programs. CLI11's own notation is "DIR
// TEXT REQUIRED", "UINT:INT in [1 - 3600]=90" or "xml not in {table,json}".
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace nfsrdma::cli {

// Call this before verbs and options are added to the App: they inherit the settings.
void use_plain_words(CLI::App& app);

// Checks of an option's value. Their errors name the accepted values.
CLI::Validator one_of(std::vector<std::string> words);
CLI::Validator within(double least, double most);

// One sentence for an error of `app` or of its verb, followed by `help`, the command that shows the help
// text.
std::string usage_text(const CLI::App& app, const CLI::ParseError& error, std::string_view help);

}  // namespace nfsrdma::cli
