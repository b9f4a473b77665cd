# SPDX-License-Identifier: Apache-2.0
"""The number of requests of whole workloads, for this mount and for the kernel's client; part of lab.py.

The kernel's come from /proc/self/mountstats, ours from `nfsrdma-fuse stats`: COMPOUNDs, by the operation that each is for. Lease renewals
do not count. Each mount works in its own directory, in the same order; a pass named "again" follows the one before.
"""

import os
import re
import sys

from measure import HOME

FILES = 300  # of each tree
# Seconds: more than acregmin (3) and less than acdirmin (30). After that a client must ask again for the attributes
# of a file without a delegation. With a shorter pause that would depend on how long the pass took.
GROWN_OLD = 5


def plant(top):
    """Makes a source tree: directories of small files that include a header, and build rules."""
    rules = ["rule compile", "  command = cat common.h $in >$out", "rule link", "  command = cat $in >$out"]
    objects = []
    os.makedirs(top)
    with open(os.path.join(top, "common.h"), "w") as file:
        file.write("int common;\n" * 100)
    for number in range(FILES):
        folder = f"part{number % 15}"
        os.makedirs(os.path.join(top, folder), exist_ok=True)
        source = f"{folder}/unit{number}.c"
        with open(os.path.join(top, source), "w") as file:
            file.write(f"int unit{number}(void) {{ return {number}; }}\n" * (1 + number % 120))
        rules.append(f"build {source[:-1]}o: compile {source} | common.h")
        objects.append(source[:-1] + "o")
    rules.append(f"build all: link {' '.join(objects)}")
    with open(os.path.join(top, "build.ninja"), "w") as file:
        file.write("\n".join(rules) + "\n")


# The name of each workload, and its command, run in an empty directory. $HOME has the tree, its repository and its
# archive.
WORKLOADS = (
    ("git clone", "git clone -q file://$HOME/repository clone"),
    ("tar x", "tar xf $HOME/tree.tar"),
    ("ls -lR, another's", "ls -lR /AT/shared >/dev/null"),
    ("ls -lR, again at once", "ls -lR /AT/shared >/dev/null"),
    ("ls -lR, again", f"sleep {GROWN_OLD}; ls -lR /AT/shared >/dev/null"),
    ("grep -r, another's", "grep -r nowhere /AT/shared || true"),
    ("grep -r, again", "grep -r nowhere /AT/shared || true"),
    ("ninja", "ninja -C tree >/dev/null"),
    ("ninja, nothing to do", "ninja -C tree >/dev/null"),
    ("git status", "git -C clone status >/dev/null"),
    ("rm -r", "rm -r clone tree"),
)


# Passes over the files that the pass before has read or built.
AGAIN = ("ls -lR, again at once", "ls -lR, again", "grep -r, again", "ninja, nothing to do")


class Requests:
    def __init__(self, guest, results):
        self.guest, self.results = guest, results
        self.tree = os.path.join(HOME, "tree")
        plant(self.tree)

    def prepare(self, export):
        """On the server: prepares the files that all workloads share."""
        self.guest.run(f"""set -e; export HOME={HOME}; cd $HOME; tar cf tree.tar tree; cp -r tree {export}/shared
            cp -r tree repository; cd repository; git init -q .; git config user.name a; git config user.email a@b; git add -A; git commit -qm all""")

    def count(self, contender, mounted):
        here = f"{mounted.path}/{re.sub('[^a-z]', '', contender)}"
        self.guest.run(f"mkdir {here}")
        for name, command in WORKLOADS:
            print(f"{contender}: {name}", file=sys.stderr, flush=True)
            before = mounted.requests()
            self.guest.run(f"set -e; export HOME={HOME}; cd {here}; {command.replace('/AT', mounted.path)}; sync -f {here}; sleep 1")
            after = mounted.requests()
            used = {op: n - before.get(op, 0) for op, n in after.items() if n != before.get(op, 0)}
            self.results.count(name, contender, used)
