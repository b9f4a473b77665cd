# SPDX-License-Identifier: Apache-2.0
"""The results of a benchmark as one document (docs/bench/README.md), and the report that nfsrdma-fuse makes of it."""

import ctypes
import json
import os
import re
import statistics
import subprocess
import time

from measure import WORK, machine

TOOL = os.path.join(WORK, "build/cli/nfsrdma-fuse")
BOUNDS = ("at_least", "at_most")


def reference(metric, contender, at=None):
    return {"metric": metric, "contender": contender, **({"at": at} if at else {})}


class Results:
    """The measured values by metric, contender and point, and the plots and targets for the report."""

    def __init__(self):
        self.contenders = {}  # name: {"role", "about"}
        self.measured = {}  # (metric, contender, point): {"at", "exact", "runs"}
        self.plots, self.targets, self.notes = [], [], []
        self.operations = {}  # [workload][contender]: {operation: requests}
        self.round = 0

    def contender(self, name, role, about):
        self.contenders.setdefault(name, {"role": role, "about": about})

    def add(self, metric, contender, run, at=None, exact=False):
        """Adds one run of this round. A value of None was not measured."""
        key = (metric, contender, tuple(sorted((at or {}).items())))
        entry = self.measured.setdefault(key, {"at": at or {}, "exact": exact, "runs": []})
        if any(other["round"] == self.round for other in entry["runs"]):
            raise ValueError(f"{key} was measured twice in round {self.round}")
        entry["runs"].append({"round": self.round, **{k: v for k, v in run.items() if v is not None}})

    def count(self, workload, contender, operations):
        """Adds the requests of a workload by operation; the document has their sum."""
        self.operations.setdefault(workload, {})[contender] = operations
        self.add(workload, contender, {"rpcs": sum(operations.values())}, exact=True)

    def note(self, text):
        if text not in self.notes:
            self.notes.append(text)

    def median(self, metric, contender, key, at=None):
        entry = self.measured.get((metric, contender, tuple(sorted((at or {}).items()))))
        values = [run[key] for run in entry["runs"] if key in run] if entry else []
        return statistics.median(values) if values else None

    def has(self, metric, contender):
        return any((name, who) == (metric, contender) for name, who, _ in self.measured)

    def now(self, metric, contender, at=None):
        """The run of this round, or None."""
        entry = self.measured.get((metric, contender, tuple(sorted((at or {}).items()))))
        return entry["runs"][-1] if entry and entry["runs"][-1]["round"] == self.round else None

    def points(self, metric, contender):
        return [entry["at"] for (name, who, _), entry in self.measured.items() if (name, who) == (metric, contender)]

    def best(self, metric, prefix, key, at=None):
        """The contender with this prefix that has the highest median, or None."""
        found = [(self.median(metric, name, key, at), name) for name in self.contenders if name.startswith(prefix)]
        found = [entry for entry in found if entry[0] is not None]
        return max(found)[1] if found else None

    def best_point(self, metric, contender, key, among=lambda at: True):
        """The point at which the contender's median is highest, or None."""
        found = [(self.median(metric, contender, key, at), number, at) for number, at in enumerate(self.points(metric, contender)) if among(at)]
        return max(found)[2] if found else None

    def plot(self, kind, title, metrics, y, compare=(), **more):
        """`compare`: (of, over) pairs. Pairs that were not measured and unknown contenders are left out."""
        if "contenders" in more:
            more["contenders"] = [name for name in more["contenders"] if name in self.contenders]
        pairs = [{"of": of, "over": over} for of, over in compare if of in self.contenders and over in self.contenders]
        if kind != "map" or pairs:
            self.plots.append({"kind": kind, "title": title, "metrics": [metrics] if isinstance(metrics, str) else metrics, "y": y,
                               **({"compare": pairs} if pairs else {}), **more})

    def target(self, what, key, of, over=(), **more):
        """`of` and the members of `over` are references; without `over` the target is about the value itself. Adds nothing if one of them
        was not measured."""
        over = [over] if isinstance(over, dict) else list(over)
        if all(r and self.median(r["metric"], r["contender"], key, r.get("at")) is not None for r in [of, *over]):
            self.targets.append({"what": what, "key": key, "of": of, "over": over, **more})

    def document(self, title, conditions):
        measurements = [{"metric": metric, "contender": contender, **({"at": entry["at"]} if entry["at"] else {}),
                         **({"exact": True} if entry["exact"] else {}), "runs": [rounded(run) for run in entry["runs"]]}
                        for (metric, contender, _), entry in self.measured.items()]
        used = {m["contender"] for m in measurements}
        plots = [among(plot, used) for plot in self.plots]
        here = machine()
        return {
            "format": "nfsrdma-bench 1", "title": title, "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "conditions": [["host", here["host"]], ["processor", f"{here['cores']} × {here['cpu']}"], ["kernel", here["kernel"]],
                           ["program", version_of(TOOL)], ["libfuse", libfuse()], *[[name, str(value)] for name, value in conditions]],
            "notes": self.notes, "contenders": [{"name": name, **c} for name, c in self.contenders.items() if name in used],
            "measurements": measurements, "plots": [plot for plot in plots if plot], "targets": self.targets,
        }


def version_of(program):
    return subprocess.run([program, "--version"], check=True, capture_output=True, text=True).stdout.strip()


def libfuse():
    """The version of the library that the programs load."""
    name = re.search(r"(libfuse3\.so\S*) => ", subprocess.run(["ldd", TOOL], check=True, capture_output=True, text=True).stdout).group(1)
    said = ctypes.CDLL(name).fuse_pkgversion
    said.restype = ctypes.c_char_p
    return said().decode()


def among(plot, measured):
    """The plot without contenders that were not measured; None if none is left. If a tool failed, only its results are missing, and a note
    says so."""
    plot = dict(plot)
    if "contenders" in plot:
        plot["contenders"] = [name for name in plot["contenders"] if name in measured]
    if "compare" in plot:
        plot["compare"] = [pair for pair in plot["compare"] if {pair["of"], pair["over"]} <= measured]
    return plot if plot.get("contenders", measured) and (plot["kind"] != "map" or plot["compare"]) else None


def rounded(run):
    """Rounded to six digits, which is the precision of the measurement."""
    return {key: float(f"{value:.6g}") if isinstance(value, float) else value for key, value in run.items()}


def write_report(document, out, name, operations=None):
    """Writes NAME.json and the report of nfsrdma-fuse: NAME.html (report.html for bench) and NAME.txt, whose text is returned."""
    path = os.path.join(out, name + ".json")
    if operations:
        with open(os.path.join(out, name + "_operations.json"), "w") as file:
            json.dump(operations, file, indent=1)
    lists = ("conditions", "notes", "contenders", "plots", "targets", "measurements")
    with open(path, "w") as file:
        # One line for each entry, so that versions can be compared.
        file.write("{\n" + "".join(f'"{key}": {json.dumps(document[key])},\n' for key in document if key not in lists))
        file.write(",\n".join(f'"{key}": [' + ",".join("\n" + json.dumps(entry, ensure_ascii=False) for entry in document[key]) + "]"
                              for key in lists) + "\n}\n")
    html = os.path.join(out, "report.html" if name == "bench" else name + ".html")
    text = subprocess.run([TOOL, "bench", "--report", path, html], check=True, capture_output=True, text=True).stdout
    with open(os.path.join(out, name + ".txt"), "w") as file:
        file.write(text)
    return text
