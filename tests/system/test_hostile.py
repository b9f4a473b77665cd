# SPDX-License-Identifier: Apache-2.0
"""A server that sends nonsense: single requests or the connection may fail, but never the daemon, and no process waits for ever.

chaosproxy corrupts replies of a real server. The result of a call whose reply was corrupted is not defined (EIO, another error, even wrong
data where a byte of the data was changed: TCP's checksums protect against that). Afterwards everything must work again.
"""

import os
import random
import subprocess
import sys
import time
import unittest

from harness.case import SystemCase, needs_mount, seconds, tool

# Works in a directory for some seconds and ignores errors: it must only end. The clock decides how long it works.
WORK = """\
import os, random, sys, time
path, seconds, seed = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
rnd = random.Random(seed)
def call(f, *a):
    try: return f(*a)
    except OSError: return None
end = time.monotonic() + seconds
done = 0
while time.monotonic() < end:
    name = os.path.join(path, f"n{rnd.randrange(20)}")
    what = rnd.randrange(9)
    if what < 3:
        fd = call(os.open, name, os.O_CREAT | os.O_RDWR, 0o644)
        if fd is not None:
            call(os.pwrite, fd, b"x" * rnd.randrange(1, 100000), rnd.randrange(100000))
            call(os.fsync, fd)
            call(os.pread, fd, 100000, 0)
            call(os.close, fd)
    elif what == 3: call(os.listdir, path)
    elif what == 4: call(os.rename, name, os.path.join(path, f"n{rnd.randrange(20)}"))
    elif what == 5: call(os.unlink, name)
    elif what == 6: call(os.mkdir, name + ".d"); call(os.rmdir, name + ".d")
    elif what == 7: call(os.stat, name); call(os.statvfs, path)
    else: call(os.symlink, "target", name + ".l"); call(os.readlink, name + ".l"); call(os.unlink, name + ".l")
    done += 1
print(done)
"""


@needs_mount()
class Hostile(SystemCase):
    LIMIT = 300
    SERVER = {"lease": 10, "grace": 5}

    def spoil(self, *rules, options="timeo=20,retrans=2"):
        chaos = self.proxy()
        mounted = self.mount(options, port=chaos.port)
        path = self.directory(mounted)
        pid = mounted.pid
        chaos.command("seed 5")
        for rule in rules:
            chaos.command(rule)
        duration = seconds(4, 60)
        workers = [self.start_program(sys.executable, "-c", WORK, path, duration, seed, stdout=subprocess.PIPE) for seed in (1, 2)]
        deadline = time.monotonic() + duration + 90
        while any(worker.poll() is None for worker in workers) and time.monotonic() < deadline:
            time.sleep(0.1)
            if time.monotonic() > deadline - 60:
                chaos.command("reset")  # a hard mount may wait as long as the fault lasts; now it must go on
        for worker in workers:
            self.assertIsNotNone(worker.poll(), "a process is stuck")
            self.assertEqual(worker.returncode, 0)
            self.assertGreater(int(worker.stdout.read()), 0)
            worker.stdout.close()
        self.assertGreater(chaos.stats()["triggered"], 0, "nothing was spoiled")
        chaos.command("reset")
        self.assertEqual(mounted.pid, pid, "the daemon is another one")
        self.wait_until(lambda: self.works(mounted), "the mount works again", 60)
        fresh = self.directory(mounted, "fresh." + os.path.basename(path))
        self.run_program(tool("fsrandom"), "--tolerate", "silly", "--steps", 1000, "--seed", 3, fresh)

    @staticmethod
    def works(mounted):
        try:
            os.mkdir(os.path.join(mounted.path, f"probe{random.random()}"))
        except OSError:
            return False
        return True

    def test_flipped_bytes(self):
        self.spoil("on reply any 1/15 flip")

    def test_flipped_bytes_four_loops(self):
        self.spoil("on reply any 1/15 flip", options="timeo=20,retrans=2,threads=4")

    def test_truncated_replies(self):
        self.spoil("on reply any 1/20 truncate 1", "on reply any 1/20 truncate 7", "on reply any 1/20 truncate 60")

    def test_garbage(self):
        self.spoil("on reply any 1/20 garbage")

    def test_records_that_announce_more_than_comes(self):
        self.spoil("on reply any 1/30 oversize 100", "on reply any 1/30 oversize 500000000")

    def test_unsolicited_replies(self):
        self.spoil("on reply any 1/20 xid", "on reply any 1/20 duplicate")

    def test_partial_messages(self):
        self.spoil("on reply any 1/30 cut-middle", "on call any 1/30 cut-middle")

    def test_everything_at_once(self):
        self.spoil("fragment 500", "on reply any 1/60 flip", "on reply any 1/60 truncate 3", "on reply any 1/60 garbage",
                   "on reply any 1/60 duplicate", "on reply any 1/60 cut", "on reply any 1/60 drop", "on reply any 1/60 xid")

    def test_each_operations_reply_flipped(self):
        chaos = self.proxy()
        mounted = self.mount("timeo=20,retrans=2", port=chaos.port)
        path = self.directory(mounted)
        for operation in ("SEQUENCE", "OPEN", "READ", "WRITE", "GETATTR", "LOOKUP", "READDIR", "CREATE", "REMOVE", "RENAME",
                          "CLOSE", "COMMIT", "SETATTR", "ACCESS"):
            chaos.command(f"on reply {operation} 1/2 flip")
            self.run_program(sys.executable, "-c", WORK, path, 0.6, 9, timeout=120)
            chaos.command("reset")
        self.wait_until(lambda: self.works(mounted), "the mount works again", 60)

    def test_nonsense_during_the_mount(self):
        """The mount command ends by itself, with one line and an exit status."""
        from harness.mount import HELPER
        for action in ("flip", "truncate 5", "garbage", "xid", "cut", "cut-middle", "drop", "oversize 1000000"):
            chaos = self.proxy()
            chaos.command(f"on reply any 1/1 {action}")
            path = self.local("mnt" + action.replace(" ", ""))
            done = subprocess.run([HELPER, "127.0.0.1:/export", path, "-o",
                                   f"port={chaos.port},proto=tcp,retry=0,timeo=10,retrans=1"],
                                  stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
            self.assertEqual(done.returncode, 32, f"{action}: {done.stderr}")
            self.assertEqual(len(done.stderr.splitlines()), 1, f"{action}: {done.stderr}")


if __name__ == "__main__":
    unittest.main()
