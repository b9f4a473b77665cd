// SPDX-License-Identifier: Apache-2.0
// Manual pages in scdoc's language (scdoc(5)), from a template and what the programs' own tables say.
//
// A line of the template that is "@WORD [NAME]@" stands for
//   @options SECTION@   the rows of a section of the option table, e.g. "@options Locking@"
//   @ignored-options@   the options without effect
//   @refused-options@   the options that end the mount, with their sentences
//   @verb NAME@         a verb of nfsrdma-fuse: its synopsis and options
//   @other-verbs@       those that no line has named
//   @filer-options@     the options of nfsrdma-filer
// @VERSION@ within a line is the programs' version. Lines that begin with ';' are comments, and left out.
// Pure.
#pragma once

#include <string>
#include <string_view>

#include "cli/outcome.h"

namespace nfsrdma::cli::pages {

// Fails, naming the line, where a word or a name is unknown, or a section of the option table is left out of
// a page that has another one.
Outcome<std::string> man_page(std::string_view page_template);

}  // namespace nfsrdma::cli::pages
