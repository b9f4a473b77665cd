# SPDX-License-Identifier: Apache-2.0
"""The state of a mount: latencies, processes, the metrics endpoint, and top in a terminal."""

import fcntl
import json
import os
import pty
import re
import select
import shutil
import signal
import socket
import stat
import struct
import subprocess
import termios
import time
import urllib.error
import urllib.request

from harness.case import SystemCase, daemons, is_mounted, needs_mount, needs_root, steward
from harness.mount import TOOL
from harness.pausing import pause, resume
from harness.ports import free_port


def over_unix(path, request=b"GET /metrics HTTP/1.0\r\n\r\n"):
    with socket.socket(socket.AF_UNIX) as asking:
        asking.settimeout(30)
        asking.connect(path)
        asking.sendall(request)
        answer = b""
        while more := asking.recv(65536):
            answer += more
    return answer.decode()


@needs_mount()
class Numbers(SystemCase):
    def test_latencies(self):
        mounted = self.mount()
        directory = self.directory(mounted)
        for n in range(20):
            with open(os.path.join(directory, str(n)), "w") as file:
                file.write("x" * 1000)
        stats = mounted.stats()
        for operations, key in ((stats["fuse"]["operations"], "histogram"), (stats["operations"], "response_histogram")):
            self.assertTrue(operations)
            for operation in operations:
                self.assertEqual(sum(count for _, count in operation[key]), operation["requests"], operation)
        writes = next(o for o in stats["operations"] if o["name"] == "OPEN")
        self.assertGreaterEqual(writes["max_us"], max(edge for edge, _ in writes["response_histogram"]))
        text = self.run_program(TOOL, "stats", mounted.path, "--ops")
        self.assertRegex(text, r"NFS response +requests +avg ms +median ms +99% ms +max ms\n")
        self.assertRegex(text, r"FUSE +requests +op/s +avg ms +median ms +99% ms +max ms +errors\n")
        if shutil.which("promtool"):
            exposition = self.run_program(TOOL, "stats", "--format", "prometheus")
            checked = subprocess.run(["promtool", "check", "metrics"], input=exposition, capture_output=True, text=True, timeout=60)
            self.assertEqual((checked.returncode, checked.stdout + checked.stderr), (0, ""))

    def loads(self, mounted):
        return json.loads(self.run_program(TOOL, "stats", mounted.path, "--processes", "--format", "json"))["processes"]

    def test_processes(self):
        mounted = self.mount()
        directory = self.directory(mounted)
        data = os.path.join(directory, "data")
        writer = self.start_program("sh", "-c", 'dd if=/dev/zero of="$1" bs=64k count=16 2>/dev/null; read x', "sh", data)
        reader = self.start_program("python3", "-c", "import os, sys, time\nfor n in range(500): os.path.exists(f'{sys.argv[1]}/no{n}')\n"
                                    "print('done', flush=True); time.sleep(600)", directory, stdout=subprocess.PIPE)
        self.assertEqual(reader.stdout.readline(), "done\n")
        writer.wait(60)
        by_pid = {load.get("pid"): load for load in self.loads(mounted)}
        self.assertIn(reader.pid, by_pid)
        self.assertEqual(by_pid[reader.pid]["kind"], "running")
        self.assertTrue(by_pid[reader.pid]["command"].startswith("python3"))
        self.assertGreaterEqual(by_pid[reader.pid]["requests"], 500)
        # dd has ended: its thread is listed separately, with its written bytes.
        ended = [load for load in self.loads(mounted) if load["kind"] == "ended"]
        self.assertEqual(sum(load["write_bytes"] for load in self.loads(mounted)), 16 << 16)
        self.assertTrue(ended)
        self.assertTrue(all("command" not in load for load in ended))
        table = self.run_program(TOOL, "stats", mounted.path, "--processes")
        self.assertRegex(table, rf"{reader.pid} python3")
        self.assertIn("(ended)", table)
        reader.stdout.close()

    def test_more_threads_than_places(self):
        mounted = self.mount()
        script = ("import os, sys, threading\n"
                  "def one(n): os.path.exists(f'{sys.argv[1]}/none{n}')\n"
                  "for n in range(1500):\n"
                  "    t = threading.Thread(target=one, args=(n,)); t.start(); t.join()\n")
        self.run_program("python3", "-c", script, mounted.path)
        stats = mounted.stats()["fuse"]
        counted = sum(c["requests"] for c in stats["callers"]) + stats["replaced_callers"]["requests"]
        requests = sum(o["requests"] for o in stats["operations"] if o["name"] != "FORGET")
        self.assertEqual(counted, requests)
        self.assertGreater(stats["replaced_callers"]["requests"], 0)
        self.assertIn("(earlier ones)", self.run_program(TOOL, "stats", mounted.path, "--processes"))


@needs_mount()
class Metrics(SystemCase):
    def test_tcp(self):
        port = free_port()
        mounted = self.mount(f"metrics=127.0.0.1:{port}")
        self.run_program("ls", "-lR", mounted.path)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
            self.assertEqual(answer.headers["Content-Type"], "text/plain; version=0.0.4; charset=utf-8")
            text = answer.read().decode()
        names = {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE ")}
        printed = self.run_program(TOOL, "stats", mounted.path, "--format", "prometheus")
        self.assertEqual(names, {line.split()[2] for line in printed.splitlines() if line.startswith("# TYPE ")})
        self.assertIn(f'mountpoint="{mounted.path}"', text)
        with self.assertRaises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=30)
        self.assertEqual(refused.exception.code, 404)
        refused.exception.close()
        mounted.umount()
        with self.assertRaises(OSError):
            socket.create_connection(("127.0.0.1", port), timeout=30)

    def test_socket_file(self):
        path = os.path.join(self.local("run"), "metrics")
        mounted = self.mount(f"metrics=unix:{path}")
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600)
        self.assertIn("nfsrdma_fuse_age_seconds{", over_unix(path))
        if shutil.which("curl"):
            self.assertIn("nfsrdma_fuse_age_seconds{", self.run_program("curl", "-sf", "--unix-socket", path, "http://x/metrics"))
        self.assertIn(f"metrics=unix:{path}", json.dumps(mounted.stats()))
        mounted.umount()
        self.assertFalse(os.path.exists(path))

    def test_killed_daemon_leaves_nothing_in_the_way(self):
        path = os.path.join(self.local("run"), "metrics")
        first = self.mount(f"metrics=unix:{path}")
        os.kill(first.pid, signal.SIGKILL)
        self.wait_until(lambda: not daemons(), "the daemon has gone")
        self.assertTrue(os.path.exists(path))
        steward.run(["umount", "-l", first.path])
        self.mounted.remove(first)
        self.mount(f"metrics=unix:{path}")
        self.assertIn("nfsrdma_fuse_age_seconds{", over_unix(path))

    def test_place_that_is_taken(self):
        """The mount works without the metrics, and says so."""
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            mounted = self.mount(f"metrics=127.0.0.1:{taken.getsockname()[1]}")
            self.assertRegex(mounted.log_text(), "the metrics are not served: 127.0.0.1:[0-9]+: bind: Address already in use")
        precious = os.path.join(self.local("run"), "file")
        with open(precious, "w") as file:
            file.write("precious")
        mounted = self.mount(f"metrics=unix:{precious}")
        self.assertIn("the metrics are not served", mounted.log_text())
        with open(precious) as file:
            self.assertEqual(file.read(), "precious")

    def test_bad_clients(self):
        """Slow clients, clients that read nothing, and clients that send no request: the mount still works, and so does the next scrape."""
        port = free_port()
        mounted = self.mount(f"metrics=127.0.0.1:{port}")
        connections = [socket.create_connection(("127.0.0.1", port), timeout=60) for _ in range(16)]
        try:
            for n, connection in enumerate(connections):
                if n % 4 == 1:
                    connection.sendall(b"GET /metrics HTTP/1.1\r\nX: ")
                elif n % 4 == 2:
                    connection.sendall(b"POST /metrics HTTP/1.1\r\nContent-Length: 9999999999\r\n\r\n" + b"x" * 10000)
                elif n % 4 == 3:
                    try:
                        connection.sendall(b"GET /" + b"a" * 1_000_000)
                    except OSError:
                        pass  # it was cut off, as expected
            with open(os.path.join(mounted.path, "file"), "w") as file:
                file.write("works")
            json.loads(self.run_program(TOOL, "status", mounted.path, "--json", timeout=20))
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=120) as answer:
                self.assertIn("nfsrdma_fuse_age_seconds{", answer.read().decode())
            descriptors = len(os.listdir(f"/proc/{mounted.pid}/fd"))
            self.assertLess(descriptors, 200)
        finally:
            for connection in connections:
                connection.close()

    def test_unmount_with_clients(self):
        path = os.path.join(self.local("run"), "metrics")
        mounted = self.mount(f"metrics=unix:{path}")
        with socket.socket(socket.AF_UNIX) as silent:
            silent.connect(path)
            silent.sendall(b"GET ")
            mounted.umount(timeout=30)
        self.assertFalse(os.path.exists(path))

    def test_wrong_values(self):
        for value, words in (("9464", "neither unix:/PATH nor ADDRESS:PORT"), ("unix:here", "begins with /"), ("127.0.0.1:99999", "1 to 65535")):
            path = self.local("mnt")
            done = subprocess.run([TOOL, "mount", "127.0.0.1:/export", path, "-o", f"metrics={value}"], capture_output=True, text=True,
                                  stdin=subprocess.DEVNULL, timeout=60)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn(words, done.stderr)
            self.assertEqual(len(done.stderr.splitlines()), 1)
            self.assertFalse(is_mounted(path))


class Screen:
    """A terminal that understands the vt100-like sequences that ncurses uses: the characters on its screen."""

    def __init__(self, columns, rows):
        self.columns, self.rows = columns, rows
        self.cells = [[" "] * columns for _ in range(rows)]
        self.x = self.y = 0
        self.top, self.bottom = 0, rows - 1  # of the region that scrolls
        self.wrapped = 0  # characters that did not fit into their line since the screen was last cleared
        self.cleared = 0
        self.rest = ""
        self.unknown = set()

    def resize(self, columns, rows):
        self.__init__(columns, rows)

    def text(self):
        return "\n".join("".join(row).rstrip() for row in self.cells)

    def put(self, character):
        if self.x >= self.columns:
            self.wrapped += 1
            return
        self.cells[self.y][self.x] = character
        self.x += 1

    def erase(self, y, begin, end):
        for x in range(begin, end):
            self.cells[y][x] = " "

    def scroll(self, up):
        """The region scrolls by a line."""
        gone, new = (self.top, self.bottom) if up else (self.bottom, self.top)
        del self.cells[gone]
        self.cells.insert(new, [" "] * self.columns)

    def index(self):
        if self.y == self.bottom:
            self.scroll(up=True)
        else:
            self.y = min(self.y + 1, self.rows - 1)

    def reverse_index(self):
        if self.y == self.top:
            self.scroll(up=False)
        else:
            self.y = max(self.y - 1, 0)

    # A control sequence, a character set, or any other escape sequence of one character.
    SEQUENCE = re.compile(r"\x1b(\[([?>]?)([0-9;]*)([@-~])|[()][A-Z0-9]|([^\[()]))")

    def feed(self, data):
        data, self.rest = self.rest + data, ""
        at = 0
        while at < len(data):
            character = data[at]
            if character == "\x1b":
                match = self.SEQUENCE.match(data, at)
                if match is None:
                    self.rest = data[at:]
                    return
                if match.group(4):
                    self.control(match.group(2), [int(n or 0) for n in match.group(3).split(";")], match.group(4))
                elif match.group(5) == "M":
                    self.reverse_index()
                elif match.group(5) and match.group(5) not in "=>78":
                    self.unknown.add(match.group(5))
                at = match.end()
                continue
            if character == "\r":
                self.x = 0
            elif character == "\n":
                self.index()
            elif character == "\b":
                self.x = max(0, self.x - 1)
            elif character >= " ":
                self.put(character)
            at += 1

    def control(self, private, numbers, final):
        first = numbers[0]
        count = max(1, first)
        if private or final in "mlhtn":
            return
        if final == "r":
            self.top = max(first, 1) - 1
            self.bottom = (numbers[1] if len(numbers) > 1 and numbers[1] else self.rows) - 1
            self.x = self.y = 0
            return
        if final in "Hf":
            self.y = min(max(first, 1), self.rows) - 1
            self.x = min(max(numbers[1] if len(numbers) > 1 else 1, 1), self.columns) - 1
        elif final == "J":
            whole = first == 2 or (first == 0 and self.x == self.y == 0)
            if whole:
                self.cleared += 1
                self.wrapped = 0
            self.erase(self.y, 0 if whole else self.x, self.columns)
            for y in range(0 if whole else self.y + 1, self.rows):
                self.erase(y, 0, self.columns)
        elif final == "K":
            self.erase(self.y, 0 if first in (1, 2) else self.x, min(self.x + 1, self.columns) if first == 1 else self.columns)
        elif final == "A":
            self.y = max(0, self.y - count)
        elif final == "B":
            self.y = min(self.rows - 1, self.y + count)
        elif final == "C":
            self.x = min(self.columns, self.x + count)
        elif final == "D":
            self.x = max(0, self.x - count)
        elif final == "G":
            self.x = min(count, self.columns) - 1
        elif final == "d":
            self.y = min(count, self.rows) - 1
        elif final == "X":
            self.erase(self.y, self.x, min(self.x + count, self.columns))
        elif final == "P":
            row = self.cells[self.y]
            del row[self.x:self.x + count]
            row.extend(" " * (self.columns - len(row)))
        elif final == "@":
            row = self.cells[self.y]
            row[self.x:self.x] = [" "] * count
            del row[self.columns:]
        elif final in "LM":  # lines are inserted or deleted, down to the end of the region
            top, self.top = self.top, self.y
            for _ in range(min(count, self.bottom - self.y + 1)):
                self.scroll(up=final == "M")
            self.top = top
        else:
            self.unknown.add(final)


class Terminal:
    def __init__(self, *argv, columns=80, rows=24, term="linux"):
        self.screen = Screen(columns, rows)
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
            os.environ["TERM"] = term
            os.environ["LC_ALL"] = "C.UTF-8"
            os.execv(argv[0], argv)
        self.status = None

    def read(self, seconds):
        """Feeds the output that comes within that time; False at its end."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            if not select.select([self.fd], [], [], left)[0]:
                return True
            try:
                data = os.read(self.fd, 65536)
            except OSError:
                return False
            if not data:
                return False
            self.screen.feed(data.decode(errors="replace"))
            return True
        return True

    def until(self, condition, what, seconds=30):
        deadline = time.monotonic() + seconds
        while not condition(self.screen.text()):
            if time.monotonic() > deadline or not self.read(0.1):
                raise AssertionError(f"{what}: not within {seconds} s; the screen:\n{self.screen.text()}")

    def press(self, keys):
        os.write(self.fd, keys.encode())

    def resize(self, columns, rows):
        self.screen.resize(columns, rows)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def end(self, seconds=30):
        deadline = time.monotonic() + seconds
        while self.status is None and time.monotonic() < deadline:
            self.read(0.05)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = os.waitstatus_to_exitcode(status)
        return self.status

    def close(self):
        if self.status is None and self.end(0) is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.fd)


@needs_mount()
class Top(SystemCase):
    DOWN, UP = "\x1b[B", "\x1b[A"

    def terminal(self, *arguments, **more):
        terminal = Terminal(TOOL, "top", *arguments, **more)
        self.addCleanup(terminal.close)
        return terminal

    def busy(self, directory):
        return self.start_program("python3", "-c", "import os, sys\nwhile True: os.path.exists(f'{sys.argv[1]}/{os.urandom(8).hex()}')", directory)

    def test_live(self):
        first, second = self.mount(), self.mount()
        worker = self.busy(second.path)
        top = self.terminal("--interval", "0.3")
        top.until(lambda text: first.path in text and second.path in text, "both mounts")
        top.until(lambda text: f"> {first.path}" in text, "the first is chosen")
        top.until(lambda text: "READ data" in text and "LOOKUP" not in text.split("> ")[0], "its details")
        top.press(self.DOWN)
        top.until(lambda text: f"> {second.path}" in text and f"on {second.path}" in text, "the second is chosen")
        top.until(lambda text: "LOOKUP" in text and "averages since" not in text, "its operations, of an interval")
        cleared = top.screen.cleared
        top.press("p")
        top.until(lambda text: re.search(rf"{worker.pid}  python3", text), "the process")
        top.press("h")
        top.until(lambda text: "this help" in text, "the help")
        top.press("h")
        top.press(self.UP)
        top.until(lambda text: f"> {first.path}" in text, "the first again")
        for _ in range(10):
            top.read(0.3)
        # Only changes are sent, and no line is too long.
        self.assertEqual(top.screen.cleared, cleared)
        self.assertEqual(top.screen.wrapped, 0)
        self.assertEqual(top.screen.unknown, set())
        top.press("q")
        self.assertEqual(top.end(), 0)

    def test_sizes(self):
        mounted = self.mount()
        self.busy(mounted.path)
        top = self.terminal("--interval", "0.2")
        top.until(lambda text: "READ data" in text, "details")
        for columns, rows in ((40, 12), (132, 50), (20, 5), (10, 2), (1, 1), (200, 60), (80, 24)):
            with self.subTest(columns=columns, rows=rows):
                top.resize(columns, rows)
                # Output for the old size may still arrive before the screen is cleared for the new one.
                top.until(lambda text: top.screen.cleared, "a screen of the new size")
                title = "nfsrdma-fuse top"[:min(columns, 16)]
                top.until(lambda text: text.startswith(title), f"the title in {columns} columns")
                for _ in range(5):
                    top.read(0.1)
                self.assertEqual(top.screen.wrapped, 0, top.screen.text())
        top.until(lambda text: "READ data" in text, "details again")
        top.press("q")
        self.assertEqual(top.end(), 0)

    def test_silent_daemon(self):
        first, second = self.mount(), self.mount()
        pause(first.pid)
        try:
            top = self.terminal("--interval", "0.3")
            top.until(lambda text: f"on {first.path}" in text and "does not answer" in text, "the silent one is shown as such")
            top.press(self.DOWN)
            top.until(lambda text: f"on {second.path}" in text and "READ data" in text, "the other's details")
            begin = time.monotonic()
            text = self.run_program(TOOL, "top", "--batch", "--count", "2", "--interval", "0.2")
            self.assertLess(time.monotonic() - begin, 30)
            self.assertEqual(text.count("does not answer"), 2, text)
            self.assertEqual(text.count(f" on {second.path}\n"), 2)
            top.press("q")
            self.assertEqual(top.end(), 0)
        finally:
            resume(first.pid)
        self.assertNotIn("does not answer", self.run_program(TOOL, "top", "--batch", "--count", "1"))

    def test_mount_that_goes(self):
        mounted = self.mount()
        top = self.terminal(mounted.path, "--interval", "0.2")
        top.until(lambda text: "READ data" in text, "details")
        mounted.umount()
        self.assertEqual(top.end(), 3)
        everything = self.terminal("--interval", "0.2")
        everything.until(lambda text: "no mounts of yours" in text, "none is left")
        everything.press("q")
        self.assertEqual(everything.end(), 0)

    def test_batch(self):
        mounted = self.mount()
        worker = self.busy(mounted.path)
        text = self.run_program(TOOL, "top", mounted.path, "--batch", "--count", "2", "--interval", "0.5")
        self.assertEqual(len(re.findall(r"(?m)^\d\d:\d\d:\d\d  1 mount$", text)), 2, text)
        self.assertRegex(text, r"  LOOKUP +[0-9.]+k? ")
        self.assertNotIn("\x1b", text)
        text = self.run_program(TOOL, "top", "-b", "-n", "1", "-p", "-i", "0.5")
        self.assertRegex(text, rf"{worker.pid}  python3")

    def test_no_terminal(self):
        done = subprocess.run([TOOL, "top"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 2)
        self.assertIn("no terminal; 'nfsrdma-fuse top --batch' needs none", done.stderr)
        unknown = self.terminal(term="no-such-terminal")
        self.assertEqual(unknown.end(), 2)
        self.assertIn("is unknown; set TERM", unknown.screen.text())
        done = subprocess.run([TOOL, "top", "/proc"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 3)

    @needs_root()
    def test_other_users_mounts(self):
        """An ordinary user sees the own mounts; root sees all."""
        mounted = self.mount()
        text = subprocess.run([TOOL, "top", "--batch", "--count", "1", "--interval", "0.1"], user=65534, group=65534, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=60).stdout
        self.assertNotIn(mounted.path, text)
        self.assertIn("no mounts of yours", text)
        self.assertIn(mounted.path, self.run_program(TOOL, "top", "--batch", "--count", "1", "--interval", "0.1"))
