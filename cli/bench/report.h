// SPDX-License-Identifier: Apache-2.0
// Documents as files for people: a text for terminals, and one HTML file that needs nothing else. Pure but
// for the file functions.
#pragma once

#include <string>

#include "cli/bench/document.h"

namespace nfsrdma::cli::bench {

// Sentences, tables of medians and spreads, verdicts. Ends with a newline.
std::string text_report(const Document& document);

// template.html with the drawing and the document itself in it; no text of either can end its script element.
std::string html_report(const Document& document);

// The document as JSON, one line a run, so that versions of a file can be compared.
std::string json_text(const Document& document);

Outcome<Document> read_document(const std::string& file);
// Replaces `file` as a whole or leaves it as it was.
Outcome<> write_file(const std::string& file, const std::string& content);

}  // namespace nfsrdma::cli::bench
