// SPDX-License-Identifier: Apache-2.0
// Formats documents for people: a text for terminals, and one HTML file that needs no other file. Pure,
// except for the file functions.
#pragma once

#include <string>

#include "cli/bench/document.h"

namespace nfsrdma::cli::bench {

// Sentences, tables of medians and spreads, verdicts. Ends with a newline.
std::string text_report(const Document& document);

// template.html with the drawing data and the document inserted. Neither text can end its script element
// early.
std::string html_report(const Document& document);

// The document as JSON, with one line for each list element, so that versions of a file can be compared by
// diff.
std::string json_text(const Document& document);

Outcome<Document> read_document(const std::string& file);
// Replaces `file` atomically, or leaves it unchanged.
Outcome<> write_file(const std::string& file, const std::string& content);

}  // namespace nfsrdma::cli::bench
