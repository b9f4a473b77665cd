// SPDX-License-Identifier: Apache-2.0
// The words of CLI11's help and errors, for all programs alike: plain English instead of its notation
// ("DIR TEXT REQUIRED", "UINT:INT in [1 - 3600]=90", "xml not in {table,json}").
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace nfsrdma::cli {

// For an App whose verbs and options are still to be added: they inherit what is set here.
void use_plain_words(CLI::App& app);

// Checks of an option's value; their errors name what is possible.
CLI::Validator one_of(std::vector<std::string> words);
CLI::Validator within(double least, double most);

// One sentence for an error of `app`, or of its verb, and the help that explains it: `help` is the command
// that shows it.
std::string usage_text(const CLI::App& app, const CLI::ParseError& error, std::string_view help);

}  // namespace nfsrdma::cli
