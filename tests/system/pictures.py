# SPDX-License-Identifier: Apache-2.0
"""Makes the pictures of docs/user/img: top, doctor, the benchmark's page, a notice, the dialog. scripts/pictures runs it (run.py has the
world).

usage: pictures.py [NAME...]     Writes all pictures, or the named ones, to out/ of the world.

Everything is real: a mount of nfsrdma-filer on loopback, a terminal (tmux), a browser (Chromium), a screen (Xvfb) with a notification
daemon (dunst). The world has a user anna and a server "filer", so that pictures do not show who made them.
"""

import contextlib
import html
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import zlib

from harness import steward
from harness.filer import Filer
from harness.mount import TOOL, daemons, is_mounted
from harness.steward import WORK

sys.path.append(os.path.join(WORK, "src", "docs"))
import browser  # noqa: E402

HOME, OUT = "/home/anna", os.path.join(WORK, "out")
FILES = os.path.join(HOME, "files")
NEEDED = {"tmux": "tmux", "Xvfb": "xvfb", "zenity": "zenity", "dunst": "dunst", "dbus-daemon": "dbus"}


def wait_until(condition, what, timeout=60):
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            raise SystemExit(f"pictures: not within {timeout} s: {what}")
        time.sleep(0.2)


def keep(name, png):
    with open(os.path.join(OUT, name + ".png"), "wb") as file:
        file.write(png)
    print(f"{name}.png: {len(png) >> 10} KiB", flush=True)


def settle():
    """Host and directory names for readers, in the world only."""
    hosts = os.path.join(WORK, "hosts")
    steward.write_file(hosts, "127.0.0.1 localhost filer\n::1 localhost\n")
    steward.run(["mount", "--bind", hosts, "/etc/hosts"])
    steward.run(["mount", "-t", "tmpfs", "-o", f"mode=755,uid={os.getuid()},gid={os.getgid()}", "tmpfs", "/home"])
    os.mkdir(HOME)
    os.chdir(HOME)
    for name in [name for name in os.environ if name.startswith(("XDG_", "DBUS_", "DISPLAY", "WAYLAND_"))]:
        del os.environ[name]
    os.environ.update(HOME=HOME, USER="anna", LOGNAME="anna", TMPDIR=os.path.join(WORK, "tmp"), PATH=os.path.dirname(TOOL) + ":" + os.environ["PATH"],
                      LC_ALL="C.UTF-8", NO_AT_BRIDGE="1")


@contextlib.contextmanager
def mounted(*options, directory=FILES, environment=None):
    os.makedirs(directory, exist_ok=True)
    subprocess.run([TOOL, "mount", *(["-o", ",".join(options)] if options else []), "filer:/export", directory], check=True,
                   env={**os.environ, **(environment or {})})
    try:
        yield directory
    finally:
        pids = daemons(directory)
        subprocess.run([TOOL, "umount", "--force", directory], check=True)
        wait_until(lambda: not is_mounted(directory) and not set(pids) & set(daemons()), "the mount is gone")


@contextlib.contextmanager
def running(*argv, **more):
    """Runs a program in its own process group, which ends with the context."""
    process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, start_new_session=True, **more)
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(30)


# ---- a terminal

COLOURS = ["#000000", "#cc4a3d", "#4fa54f", "#c4a000", "#4f87d6", "#a05fb0", "#2fa3a5", "#d3d7cf",
           "#777b76", "#ef5350", "#8ae234", "#fce94f", "#82b1ff", "#d89be8", "#54d8d8", "#ffffff"]
PAPER, INK = "#16191d", "#dfe3e6"
PAGE = """<!DOCTYPE html><meta charset="utf-8"><style>body {{ margin: 0; background: {paper}; }}
pre {{ display: inline-block; margin: 0; padding: 12px 14px; color: {ink}; background: {paper}; font: 14px/18px "DejaVu Sans Mono", monospace; }}
</style><pre>{text}</pre>"""


def markup(text):
    """Text that tmux captured, with its SGR sequences, as HTML."""
    out, state = [], {}
    for part in re.split(r"(\x1b\[[\d;]*m)", text):
        if not part.startswith("\x1b["):
            paper, ink = state.get("paper"), state.get("ink")
            if state.get("reverse"):
                paper, ink = ink or INK, paper or PAPER
            style = "".join([f"color:{ink};" if ink else "", f"background:{paper};" if paper else "", "font-weight:bold;" if state.get("bold") else "",
                             "opacity:0.7;" if state.get("dim") else "", "text-decoration:underline;" if state.get("under") else ""])
            words = html.escape(part, quote=False)
            out.append(f'<span style="{style}">{words}</span>' if style and part else words)
            continue
        codes = [int(code or 0) for code in part[2:-1].split(";")]
        while codes:
            code = codes.pop(0)
            if code == 0:
                state = {}
            elif code in (1, 2, 4, 7):
                state[{1: "bold", 2: "dim", 4: "under", 7: "reverse"}[code]] = True
            elif code in (38, 48) and codes[:1] == [5]:
                state["ink" if code == 38 else "paper"] = COLOURS[codes[1]] if codes[1] < 16 else INK
                codes = codes[2:]
            elif 30 <= code <= 37 or 90 <= code <= 97:
                state["ink"] = COLOURS[code - 30 if code < 90 else code - 82]
            elif 40 <= code <= 47 or 100 <= code <= 107:
                state["paper"] = COLOURS[code - 40 if code < 100 else code - 92]
            elif code in (39, 49):
                state.pop("ink" if code == 39 else "paper", None)
    return "".join(out)


class Terminal:
    """A shell in tmux, with so many columns and rows."""

    def __init__(self, columns, rows):
        self.socket = os.path.join(WORK, "tmp", "tmux")
        self.settings = os.path.join(WORK, "tmp", "tmux.conf")
        with open(self.settings, "w") as file:
            file.write("set -g status off\nset -g default-terminal tmux-256color\n")
        self.tmux("-f", self.settings, "new-session", "-d", "-x", str(columns), "-y", str(rows), "env", "PS1=$ ", "ENV=", "sh")

    def tmux(self, *argv):
        return subprocess.run(["tmux", "-S", self.socket, *argv], check=True, capture_output=True, text=True).stdout

    def type(self, line):
        self.tmux("send-keys", "-l", line)
        self.tmux("send-keys", "Enter")

    def text(self):
        return self.tmux("capture-pane", "-p")

    def keep(self, name):
        lines = self.tmux("capture-pane", "-p", "-e").rstrip("\n")
        page = os.path.join(WORK, "tmp", name + ".html")
        with open(page, "w", encoding="utf-8") as file:
            file.write(PAGE.format(paper=PAPER, ink=INK, text=markup(lines)))
        with browser.Browser() as window:
            window.open(page, 1280)
            keep(name, window.picture(element="pre"))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        subprocess.run(["tmux", "-S", self.socket, "kill-server"], check=False, capture_output=True)


def take_top(server):
    """top, with one program that reads a large file and one that searches for files."""
    with mounted(), Terminal(80, 24) as terminal:
        os.makedirs(os.path.join(FILES, "photos", "2026"), exist_ok=True)
        for number in range(60):
            with open(os.path.join(FILES, "photos", "2026", f"{number:04}.jpg"), "wb") as file:
                file.write(os.urandom(40000))
        with open(os.path.join(FILES, "film.mkv"), "wb") as file:
            file.write(bytes(64 << 20))
        read = 'while :; do dd if="$1" of=/dev/null bs=256k iflag=direct 2>/dev/null; sleep 0.2; done'
        look = 'while :; do find "$1" -type f -size +1M >/dev/null; cat "$1"/2026/* >/dev/null; sleep 0.1; done'
        with running("sh", "-c", read, "sh", os.path.join(FILES, "film.mkv")), running("sh", "-c", look, "sh", os.path.join(FILES, "photos")):
            terminal.type("nfsrdma-fuse top")
            wait_until(lambda: "READ" in terminal.text(), "top shows reads")
            time.sleep(6)  # a few intervals
            terminal.keep("top")
            terminal.tmux("send-keys", "q")


def take_doctor(server):
    with mounted(), Terminal(92, 44) as terminal:
        terminal.type("nfsrdma-fuse doctor ~/files")
        wait_until(lambda: terminal.text().rstrip().endswith("\n$"), "the doctor is done")
        terminal.keep("doctor")


# ---- a phone

def take_bench(server):
    """The benchmark's page of two mounts of one server, with a host name that tells nothing."""
    tcp, rdma = os.path.join(HOME, "tcp"), os.path.join(HOME, "rdma")
    page = os.path.join(HOME, "bench.html")
    with mounted("proto=tcp", directory=tcp), mounted("proto=rdma", directory=rdma):
        user = ["setpriv", f"--reuid={os.getuid()}", f"--regid={os.getgid()}", "--clear-groups", "env", "-C", HOME, f"HOME={HOME}"]
        measure = [TOOL, "bench", "rdma", "tcp", "--quick", "--only", "large", "--size", "64M", "--html", page]
        steward.run(["unshare", "--uts", "sh", "-c", 'hostname laptop; exec "$@"', "sh", *user, *measure], timeout=300)
    with browser.Browser() as window:
        window.open(page, browser.TELEPHONE)
        keep("bench-telephone", window.picture(height=1250))


# ---- a screen

class Screen:
    """Xvfb, and the content of its frame buffer, a file in the format of xwd(1)."""

    def __init__(self, width, height):
        self.work = tempfile.mkdtemp(dir=os.path.join(WORK, "tmp"))
        reading, writing = os.pipe()
        self.process = subprocess.Popen(["Xvfb", "-displayfd", str(writing), "-screen", "0", f"{width}x{height}x24", "-fbdir", self.work,
                                         "-nolisten", "tcp"], pass_fds=[writing], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(writing)
        with os.fdopen(reading) as number:
            self.display = number.readline().strip()
        if not self.display:
            raise SystemExit("pictures: Xvfb does not start")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(30)
        shutil.rmtree(self.work, ignore_errors=True)

    def environment(self):
        return {**os.environ, "DISPLAY": ":" + self.display}

    def rows(self):
        """The rows of RGB bytes, without the black border."""
        with open(os.path.join(self.work, "Xvfb_screen0"), "rb") as file:
            data = file.read()
        header = struct.unpack(">25I", data[:100])
        size, width, height, bits, line, colours = header[0], header[4], header[5], header[11], header[12], header[19]
        if bits != 32:
            raise SystemExit(f"pictures: a screen of {bits} bits a pixel")
        begin, rows = size + colours * 12, []
        for y in range(height):
            row = data[begin + y * line:begin + y * line + width * 4]
            rows.append(bytes(byte for x in range(0, len(row), 4) for byte in (row[x + 2], row[x + 1], row[x])))
        full = [y for y, row in enumerate(rows) if any(row)]
        rows = rows[full[0]:full[-1] + 1] if full else []
        left = min(((len(row) - len(row.lstrip(b"\0"))) // 3 for row in rows), default=0)
        right = max(((len(row.rstrip(b"\0")) + 2) // 3 for row in rows), default=0)
        return [row[left * 3:right * 3] for row in rows]

    def keep(self, name):
        """Keeps the picture once something is drawn and no longer changes."""
        before, deadline = None, time.monotonic() + 60
        while time.monotonic() < deadline:
            now = self.rows()
            if now and now == before and len(set(b"".join(now))) > 8:
                keep(name, png(now))
                return
            before = now
            time.sleep(1)
        raise SystemExit(f"pictures: nothing is drawn for {name}")


def png(rows):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    header = struct.pack(">IIBBBBB", len(rows[0]) // 3, len(rows), 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"".join(b"\0" + r for r in rows), 9)) + chunk(b"IEND", b"")


DUNST = """\
[global]
    origin = top-left
    offset = 0x0
    width = 460
    height = 200
    font = DejaVu Sans 11
    frame_width = 1
    frame_color = "#8899aa"
    format = "<b>%s</b>\\n%b"
    word_wrap = yes
    padding = 12
    horizontal_padding = 14
    enable_recursive_icon_lookup = false
    icon_path = {icons}
    max_icon_size = 48
[urgency_low]
    background = "#f7f8fa"
    foreground = "#1b1f24"
    timeout = 0
[urgency_normal]
    background = "#f7f8fa"
    foreground = "#1b1f24"
    timeout = 0
[urgency_critical]
    background = "#f7f8fa"
    foreground = "#1b1f24"
    timeout = 0
"""


def take_notice(server):
    """The notice of the mount's own daemon, after the server has not answered for 15 seconds."""
    bus = "unix:path=" + os.path.join(WORK, "tmp", "bus")
    settings = os.path.join(WORK, "tmp", "dunstrc")
    with open(settings, "w") as file:
        file.write(DUNST.format(icons=os.path.join(WORK, "desktop")))
    with contextlib.ExitStack() as stack:
        screen = stack.enter_context(Screen(520, 260))
        stack.enter_context(running("dbus-daemon", "--session", "--nofork", "--nopidfile", f"--address={bus}", stderr=subprocess.DEVNULL))
        wait_until(lambda: os.path.exists(bus.partition("=")[2]), "the bus listens")
        environment = {"DBUS_SESSION_BUS_ADDRESS": bus}
        stack.enter_context(running("dunst", "-conf", settings, env={**screen.environment(), **environment}, stderr=subprocess.DEVNULL))
        stack.enter_context(mounted("actimeo=0", environment=environment))
        os.listdir(FILES)
        server.pause()
        try:
            with running("ls", FILES, stdout=subprocess.DEVNULL):
                wait_until(lambda: screen.rows(), "the user is told")
                screen.keep("notice")
        finally:
            server.resume()


def take_dialog(server):
    with Screen(600, 400) as screen, running(os.path.join(WORK, "desktop", "nfsrdma-fuse-connect"), env=screen.environment()):
        screen.keep("dialog")


PICTURES = {"top": take_top, "doctor": take_doctor, "bench-telephone": take_bench, "notice": take_notice, "dialog": take_dialog}


def main(names):
    if unknown := set(names) - set(PICTURES):
        raise SystemExit(f"pictures: no such picture: {', '.join(sorted(unknown))}; there are {', '.join(PICTURES)}")
    missing = [package for program, package in NEEDED.items() if not shutil.which(program)] + ([] if browser.PROGRAM else ["chromium"])
    if missing:
        print(f"pictures: missing {', '.join(missing)}: run 'scripts/setup --pictures'", file=sys.stderr)
        return 77
    settle()
    server = Filer(port=2049, arguments=("--rdma", "127.0.0.1:20049")).start()
    try:
        for name in names or PICTURES:
            PICTURES[name](server)
    finally:
        server.kill()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
