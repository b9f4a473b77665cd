# SPDX-License-Identifier: Apache-2.0
"""A page in headless Chromium, without a network, as wide as a telephone or a screen: evaluates expressions in it and takes pictures.

Speaks the DevTools protocol over two pipes, so that only Chromium is needed.
"""

import base64
import itertools
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
TELEPHONE = 390  # CSS pixels


class Browser:
    """A context manager: the browser and its profile end with it."""

    def __enter__(self):
        self.profile = tempfile.mkdtemp()
        ours_in, theirs_out = os.pipe()
        theirs_in, ours_out = os.pipe()

        def descriptors():  # Chromium reads from 3 and writes to 4
            reading, writing = os.dup(theirs_in), os.dup(theirs_out)
            spare = [os.dup(0) for _ in range(6)]  # so that no descriptor of the pipes is 3 or 4
            reading, writing = os.dup(reading), os.dup(writing)
            os.dup2(reading, 3), os.dup2(writing, 4)
            for number in (*spare, reading, writing):
                if number > 4:
                    os.close(number)

        self.process = subprocess.Popen(
            [PROGRAM, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--host-resolver-rules=MAP * ~NOTFOUND",
             f"--user-data-dir={self.profile}", "--remote-debugging-pipe", "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=descriptors, close_fds=False,
            start_new_session=True, env={**os.environ, "HOME": self.profile})
        os.close(theirs_in), os.close(theirs_out)
        self.reading, self.writing, self.buffer, self.numbers = ours_in, ours_out, b"", itertools.count(1)
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = None
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        return self

    def __exit__(self, *_):
        os.close(self.writing), os.close(self.reading)
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait(30)
        shutil.rmtree(self.profile, ignore_errors=True)

    session = None

    def call(self, method, **parameters):
        number = next(self.numbers)
        message = {"id": number, "method": method, "params": parameters, **({"sessionId": self.session} if self.session else {})}
        os.write(self.writing, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + 120
        while True:
            line, end, rest = self.buffer.partition(b"\0")
            if not end:
                if not select.select([self.reading], [], [], max(0, deadline - time.monotonic()))[0]:
                    raise RuntimeError(f"the browser does not answer {method}")
                got = os.read(self.reading, 1 << 16)
                if not got:
                    raise RuntimeError(f"the browser has ended, status {self.process.poll()}")
                self.buffer += got
                continue
            self.buffer = rest
            answer = json.loads(line)
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]

    def evaluate(self, expression):
        """The value of an expression in the page; waits for a promise."""
        told = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in told:
            raise RuntimeError(told["exceptionDetails"].get("exception", {}).get("description", told["exceptionDetails"]["text"]))
        return told["result"].get("value")

    def open(self, path, width, height=844, scale=1, dark=False):
        """Shows a file, or an address, in a window of so many CSS pixels."""
        telephone = width < 600
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=telephone)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.call("Page.navigate", url=path if "://" in path else "file://" + os.path.abspath(path))
        self.evaluate("new Promise(function wait(done) { location.href !== 'about:blank' && document.readyState === 'complete'"
                      " ? setTimeout(done, 200) : setTimeout(wait, 50, done); })")

    def picture(self, height=None, element=None):
        """PNG of the window, of the page's first `height` pixels, or of the first element that matches."""
        clip = None
        if element:
            clip = self.evaluate(f"(({{x, y, width, height}}) => ({{x, y, width, height}}))(document.querySelector({element!r}).getBoundingClientRect())")
        elif height:
            clip = {"x": 0, "y": 0, "width": self.evaluate("innerWidth"), "height": height}
        more = {"captureBeyondViewport": True, "clip": {**clip, "scale": 1}} if clip else {}
        return base64.b64decode(self.call("Page.captureScreenshot", format="png", **more)["data"])
