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
// POINT is {"v", "low", "high", "n", "shown", "shown_low", "shown_high"}: the median, the lowest and the
// highest value, the number of values, and the first three as text.
//
// bars   "groups": [{"name", "rows": [POINT with "name", "role"]}]
// lines  "panels": [{"name", "series": [{"name", "role", "points": [POINT with "x", "at"]}]}],
//        "ticks": [{"v", "shown"}]. With "ordered" the series are steps of "along" (AXIS) and have a "short"
//        name. If x was measured too, points have "x_low", "x_high" and a "mark" as label, and there are no
//        ticks.
// map    "columns", "rows": [shown], "along": AXIS, "of", "over",
//        "cells": [[{"v", "low", "high", "n", "standing": "above" | "below" | "spread" | "few"} or null]]
#pragma once

#include "cli/bench/document.h"

namespace nfsrdma::cli::bench {

Json drawing_of(const Document& document);

}  // namespace nfsrdma::cli::bench
