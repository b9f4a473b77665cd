# SPDX-License-Identifier: Apache-2.0
"""The programs' messages at error and warning level, and the messages of failing commands, read from the sources.

A message is a text in a call that logs or refuses. Parts that the program fills in are "…", so that `server {} OK` is "server … OK". A
text without words of its own ("{}: {}") only combines other messages and does not count.
"""

import glob
import os
import re

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LOGS = ("cli", "client", "fuse", "transport", "filer", "xdr")
LOGGED = r"log::(?:warn|error)"
# Calls of the command line, which ends with one line on standard error.
REFUSED = r"refuse|Failure|failed|usage|bad|unexpected<Failure>"
NOT_INSTALLED = "cli/pages/"
# Files that compose messages: every text of three or more words is a part of one.
WHOLE = ("cli/options/command_words.cc", "cli/control/control_path.cc", "cli/server/explain.cc", "cli/filer/filer_command.cc", "cli/mount/ladder.cc", "cli/mount/launch.cc",
         "cli/mount/mount_command.cc", "cli/mount/mount_daemon.cc", "cli/mount/mount_point.cc", "cli/options/options.cc", "cli/server/probe.cc", "cli/mount/unmount.cc")
# Parts of messages, and texts that are not messages.
FRAGMENTS = {"its size", "making a directory in it", "A subcommand is required", "Could not convert", "show this text", "Operation not permitted",
             "an RDMA device", "in the background", "one of", "an unknown address", "no JSON"}
LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"')


def arguments(text, start):
    """The string literals of a call's arguments, up to the closing bracket. Adjacent literals are one."""
    depth, at, literals, last = 1, start, [], None
    while depth and at < len(text):
        found = LITERAL.match(text, at)
        if found:
            if last is not None and not text[last:at].strip():
                literals[-1] += found.group(1)
            else:
                literals.append(found.group(1))
            at = last = found.end()
        elif re.match(r"'(\\.|[^\\])'", text[at:at + 4]):
            at += len(re.match(r"'(\\.|[^\\])'", text[at:at + 4]).group(0))
        elif text.startswith("//", at):
            at = text.index("\n", at)
        else:
            depth += (text[at] == "(") - (text[at] == ")")
            at += 1
    return literals


def normal(literal):
    text = literal.replace('\\"', '"').replace("\\n", " ").replace("{{", "\0").replace("}}", "\1")
    text = re.sub(r"\{[^}]*\}", "…", text).replace("\0", "{").replace("\1", "}")
    return " ".join(text.split()).strip(" ;:")


def has_words(text, least):
    return len(re.findall(r"[A-Za-z]{2,}", text.replace("…", " "))) >= least


def calls(text, names):
    """(start of the call, start of its arguments) of calls."""
    return [(call.start(), call.end()) for call in re.finditer(rf"(?<![\w:])(?:tl::)?(?:{names})\s*\(", text)]


def sentences(text):
    """(place, literals) of a whole file, without what it includes, prints or logs at other levels."""
    text = re.sub(r'(?m)^#include.*$|//.*$|"_[a-z]+', lambda m: " " * len(m.group(0)), text)
    for start, behind in calls(text, r"log::(?:info|debug)|fmt::print|step|getenv"):
        end = start + re.search(r"\);", text[start:]).end()
        text = text[:start] + re.sub(r"[^\n]", " ", text[start:end]) + text[end:]
    for found in re.finditer(r'(?:"(?:[^"\\\n]|\\.)*"\s*)+', text):
        yield found.start(), ["".join(LITERAL.findall(found.group(0)))]


def of_source():
    """{message: "file:line" of its first place}"""
    found = {}
    for folder in LOGS:
        for path in sorted(glob.glob(os.path.join(ROOT, folder, "**", "*.cc"), recursive=True)):
            name = os.path.relpath(path, ROOT)
            if name.startswith(NOT_INSTALLED):
                continue
            with open(path, encoding="utf-8") as file:
                text = file.read()
            places = [(start, arguments(text, behind), 1) for start, behind in calls(text, LOGGED)]
            if folder == "cli":
                places += [(start, arguments(text, behind), 2) for start, behind in calls(text, REFUSED)]
            if name in WHOLE:
                places += [(start, literals, 3) for start, literals in sentences(text)]
            for start, literals, words in places:
                for message in map(normal, literals):
                    if has_words(message, words) and " " in message and message not in FRAGMENTS:
                        found.setdefault(message, f"{name}:{text.count(chr(10), 0, start) + 1}")
    return found


def texts():
    """Every text of the sources that could be a message, normalised."""
    found = set()
    for folder in LOGS:
        for path in glob.glob(os.path.join(ROOT, folder, "**", "*.cc"), recursive=True):
            with open(path, encoding="utf-8") as file:
                for literal in re.finditer(r'(?:"(?:[^"\\\n]|\\.)*"\s*)+', re.sub(r"(?m)^#include.*$", "", file.read())):
                    found.add(normal("".join(LITERAL.findall(literal.group(0)))))
    return found


def of_page(text):
    """The messages that a page has entries for: items of lists that are one code span and nothing else."""
    return re.findall(r"(?m)^- `([^`]+)`$", text)


if __name__ == "__main__":
    for message, place in of_source().items():
        print(f"{place}: {message}")
