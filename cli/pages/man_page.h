// SPDX-License-Identifier: Apache-2.0
// Generates manual pages in the language of scdoc(5), from a template and the programs' own tables.
//
// A template line "@WORD [NAME]@" is replaced:
//   @options SECTION@   the rows of a section of the option table, e.g. "@options Locking@"
//   @ignored-options@   the options without effect
//   @refused-options@   the options that are refused, with their sentences
//   @verb NAME@         a verb of nfsrdma-fuse: its synopsis and options
//   @other-verbs@       the verbs that no line has named
//   @filer-options@     the options of nfsrdma-filer
//
// @VERSION@ within a line is the programs' version. Lines that begin with ';' are comments and are removed.
// Pure.
#pragma once

#include <string>
#include <string_view>

#include "cli/support/outcome.h"

namespace nfsrdma::cli::pages {

// Fails and names the line if a word or a name is unknown, or if a verb occurs twice. Also fails if a page
// has some but not all sections of the option table.
Outcome<std::string> man_page(std::string_view page_template);

}  // namespace nfsrdma::cli::pages
