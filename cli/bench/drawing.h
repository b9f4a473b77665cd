// SPDX-License-Identifier: Apache-2.0
// What report.html draws: plots with every number, label and sentence worked out, so that the template's
// script only places shapes. Pure.
//
//     {"title", "date", "where", "conditions", "notes", "contenders": [{"name", "role", "about"}],
//      "targets": [{"what", "verdict", "ratio", "wanted"}],
//      "plots": [{"form": "bars" | "lines" | "map", "title", "text", "findings", "x": AXIS, "y": AXIS, ...}]}
//
// "where" and "conditions" are pairs of a name and a text: those of the page's head, and all of them.
// AXIS is {"label", "unit", "better", "log"}.
// POINT is {"v", "low", "high", "n", "shown", "shown_low", "shown_high"}: median, lowest, highest, how many.
//
// bars   "groups": [{"name", "rows": [POINT with "name", "role"]}]
// lines  "panels": [{"name", "series": [{"name", "role", "points": [POINT with "x", "at"]}]}],
//        "ticks": [{"v", "shown"}]; with "ordered" the series are steps of "along" (AXIS) and have a "short"
//        name; where x was measured, too, points have "x_low", "x_high" and a "mark" to be shown, and there
//        are no ticks
// map    "columns", "rows": [shown], "along": AXIS, "of", "over",
//        "cells": [[{"v", "low", "high", "n", "standing": "above" | "below" | "spread" | "few"} or null]]
#pragma once

#include "cli/bench/document.h"

namespace nfsrdma::cli::bench {

Json drawing_of(const Document& document);

}  // namespace nfsrdma::cli::bench
