"""A headless Chromium, driven over its pipe of JSON messages: nothing but the standard library."""

import base64
import fcntl
import json
import os
import select
import shutil
import signal
import tempfile
import time
from contextlib import suppress
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
LIMIT = 300.0


def executable() -> str | None:
    """FEDDCD_BROWSER, or the first that is installed."""
    named = os.environ.get("FEDDCD_BROWSER")
    return shutil.which(named) if named else next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """One page at a time; `errors` and `requests` gather what the page says and asks for."""

    def __init__(self, program: str):
        self._folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        theirs, self._out = os.pipe()
        self._in, ours = os.pipe()
        options = [
            "--headless=new", "--remote-debugging-pipe", "--disable-gpu", "--no-first-run",
            "--disable-dev-shm-usage", "--disable-background-networking", "--hide-scrollbars",
            "--disable-extensions", "--disable-component-update", "--disable-sync",
            f"--user-data-dir={self._folder.name}", *["--no-sandbox"] * (os.geteuid() == 0),
        ]  # fmt: skip
        quiet = os.open(os.devnull, os.O_RDWR)
        moves = [(os.POSIX_SPAWN_DUP2, a, b) for a, b in ((quiet, 1), (quiet, 2))]
        # they may be 3 or 4 themselves: far away first
        far = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10) for fd in (theirs, ours)]
        moves += [(os.POSIX_SPAWN_DUP2, far[0], 3), (os.POSIX_SPAWN_DUP2, far[1], 4)]
        self._pid = os.posix_spawnp(
            program, [program, *options], os.environ, file_actions=moves, setpgroup=0
        )
        for fd in (theirs, ours, quiet, *far):
            os.close(fd)
        self._buffer, self._count, self.errors, self.requests = b"", 0, [], []
        self._session = None
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        attached = self._call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._call(f"{domain}.enable")

    def __enter__(self) -> "Browser":
        return self

    def __exit__(self, *_) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        os.close(self._in)
        os.close(self._out)
        self._folder.cleanup()

    def open(self, path: Path | str, width: int = 1280, height: int = 900) -> None:
        """Load a file, or an address, and wait until its scripts have run."""
        self.errors.clear()
        self.requests.clear()
        self.size(width, height)
        self._loaded = False
        self._call("Page.navigate", url=path if isinstance(path, str) else path.absolute().as_uri())
        while not self._loaded:
            self._read()
        self.evaluate("new Promise(r => requestAnimationFrame(() => requestAnimationFrame(r)))")

    def size(self, width: int, height: int = 900) -> None:
        self._call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                   deviceScaleFactor=1, mobile=width < 600)  # fmt: skip

    def scheme(self, name: str) -> None:
        """`light` or `dark`, as a reader's system would ask for."""
        wish = {"name": "prefers-color-scheme", "value": name}
        self._call("Emulation.setEmulatedMedia", features=[wish])

    def evaluate(self, script: str):
        done = self._call(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in done:
            raise RuntimeError(done["exceptionDetails"]["exception"].get("description", script))
        return done["result"].get("value")

    def screenshot(self, path: Path) -> None:
        """The whole page, not only what is in the window."""
        done = self._call("Page.captureScreenshot", captureBeyondViewport=True)
        Path(path).write_bytes(base64.b64decode(done["data"]))

    def pdf(self, path: Path) -> None:
        """A4."""
        done = self._call("Page.printToPDF", paperWidth=8.27, paperHeight=11.69,
                          preferCSSPageSize=True, printBackground=True)  # fmt: skip
        Path(path).write_bytes(base64.b64decode(done["data"]))

    def _call(self, method: str, **params):
        self._count += 1
        number, session = self._count, {"sessionId": self._session} if self._session else {}
        message = {"id": number, "method": method, "params": params} | session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while (answer := self._read()).get("id") != number:
            pass
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']['message']}")
        return answer["result"]

    def _read(self) -> dict:
        end = time.monotonic() + LIMIT
        while b"\0" not in self._buffer:
            if not select.select([self._in], [], [], max(end - time.monotonic(), 0))[0]:
                raise TimeoutError(f"the browser said nothing for {LIMIT:.0f} s")
            part = os.read(self._in, 1 << 20)
            if not part:
                raise RuntimeError("the browser ended")
            self._buffer += part
        head, _, self._buffer = self._buffer.partition(b"\0")
        message = json.loads(head)
        self._note(message.get("method"), message.get("params", {}))
        return message

    def _note(self, method: str | None, params: dict) -> None:
        if method == "Page.loadEventFired":
            self._loaded = True
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description", details["text"]))
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning"):
            self.errors.append(" ".join(str(a.get("value")) for a in params["args"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.errors.append(params["entry"]["text"])
