// SPDX-License-Identifier: Apache-2.0
// The data for report.html's plots. Every number, label and sentence is already computed, so the template's
// script only places shapes. Pure.
//
//     {"title", "date", "where", "conditions", "notes", "contenders": [{"name", "role", "about"}],
//      "targets": [{"what", "verdict", "ratio", "wanted"}],
//      "plots": [{"form": "bars" | "lines" | "map", "title", "text", "findings", "x": AXIS, "y": AXIS, ...}]}
//
// "where" and "conditions" are lists of [name, text] pairs. "where" has the pairs for the head of the page,
// "conditions" has all pairs.
// AXIS is {"label", "unit", "better", "log"}.
// POINT is {"v", "low", "high", "n", "shown", "shown_low", "shown_high"}: "v" is the median of "n" values,
// "low" and "high" are the lowest and the highest. "shown..." are these three as text.
//
// bars   "groups": [{"name", "rows": [POINT with "name", "role"]}]
// lines  "panels": [{"name", "series": [{"name", "role", "points": [POINT with "x", "at"]}]}],
//        "ticks": [{"v", "shown"}]. "at" are the point's coordinates, as text. With "ordered", each series
//        belongs to one value of "along" (AXIS); "short" is that value as text. If x was measured too, points
//        have "x_low", "x_high" and a "mark" as label, and there are no ticks.
// map    Ratios: contender "of" divided by contender "over". "columns" and "rows": the values of x and of
//        "along" (AXIS), as text. "cells": a list for each row, an item for each column, null if not
//        measured:
//        {"v", "low", "high", "n", "standing": "above" | "below" | "spread" | "few"}
#pragma once

#include "cli/bench/document.h"

namespace nfsrdma::cli::bench {

Json drawing_of(const Document& document);

}  // namespace nfsrdma::cli::bench
