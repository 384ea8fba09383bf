"""A real browser for tests of pages, if one is installed.

It is driven through its debugging pipe, in real time: its virtual time waits neither for frames nor for
streams, so on a busy host a page was inspected before it was drawn.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from threading import Timer
from typing import IO, Any

import pytest

__all__ = ["needs_browser", "seen_in_browser"]

_BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
_PATIENCE_S = 300.0
"""Timeout for drawing a page; only a broken page takes so long."""

# With CI=true the tests run even without a browser, and fail.
needs_browser = pytest.mark.skipif(
    _BROWSER is None and not os.environ.get("CI"), reason="no browser: install chromium"
)

_ASK = """(async () => {
  const by = (id) => document.getElementById(id), seen = {};
  const drawn = (canvas) => canvas.width > 0 && canvas.height > 0 && canvas.getContext("2d")
    .getImageData(0, 0, canvas.width, canvas.height).data.some((value) => value > 0);
  // The overview is drawn last, and some frame after the page is loaded.
  while (!drawn(by("overview"))) await new Promise((next) => setTimeout(next, 20));
  %s
  return seen;
})()"""


def seen_in_browser(page: Path, script: str, profile: Path) -> Mapping[str, Any]:
    """Open a page, wait until its chart is drawn, and run a script that stores results in ``seen``.

    An uncaught exception of the page's scripts fails the test.
    """
    command = [str(_BROWSER), "--headless", "--no-sandbox", "--disable-gpu", "--window-size=1200,800"]
    # No network access of the browser itself.
    command += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
    command += ["--no-first-run", "--disable-quic", f"--user-data-dir={profile}", "--remote-debugging-pipe"]
    # The browser reads commands from descriptor 3 and replies on 4.
    shell = ["sh", "-c", 'exec "$0" "$@" 3<&0 4>&1 </dev/null >&2', *command]
    profile.mkdir()
    with (
        (profile / "stderr").open("wb") as reported,
        subprocess.Popen(shell, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=reported) as process,
    ):
        guard = Timer(_PATIENCE_S, process.kill)
        guard.start()
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            seen = _seen(_Pipe(process.stdin, process.stdout), page, script)
            # The browser exits when its pipe is closed; killing it would leave child processes for a moment.
            process.stdin.close()
            process.wait()
        except (EOFError, BrokenPipeError):
            printed = (profile / "stderr").read_text(errors="replace")[-2000:]
            pytest.fail(f"the browser ended before {page.name} was drawn: {printed}")
        finally:
            guard.cancel()
            process.kill()
    return seen


class _Pipe:
    """Commands to the browser and its replies, terminated by zero bytes."""

    def __init__(self, commands: IO[bytes], answers: IO[bytes]) -> None:
        self._commands = commands
        self._answers = answers
        self._sent = 0
        self.session: str | None = None

    def ask(self, method: str, **parameters: object) -> Mapping[str, Any]:
        """Send a command and wait for its result."""
        self._sent += 1
        message = {"id": self._sent, "method": method, "params": parameters}
        if self.session is not None:
            message["sessionId"] = self.session
        self._commands.write(json.dumps(message).encode() + b"\0")
        self._commands.flush()
        answer = self._next()
        while answer.get("id") != self._sent:
            answer = self._next()
        assert "error" not in answer, answer
        result: Mapping[str, Any] = answer["result"]
        return result

    def wait(self, event: str) -> None:
        """Wait for an event."""
        while self._next().get("method") != event:
            pass

    def _next(self) -> Mapping[str, Any]:
        letters = bytearray()
        while (letter := self._answers.read(1)) != b"\0":
            if not letter:
                raise EOFError
            letters += letter
        message: Mapping[str, Any] = json.loads(letters)
        if message.get("method") == "Runtime.exceptionThrown":
            pytest.fail(_text(message["params"]["exceptionDetails"]))
        return message


def _seen(pipe: _Pipe, page: Path, script: str) -> Mapping[str, Any]:
    target = pipe.ask("Target.createTarget", url="about:blank")["targetId"]
    pipe.session = pipe.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
    pipe.ask("Page.enable")
    pipe.ask("Runtime.enable")
    pipe.ask("Page.navigate", url=page.as_uri())
    pipe.wait("Page.loadEventFired")
    result = pipe.ask("Runtime.evaluate", expression=_ASK % script, awaitPromise=True, returnByValue=True)
    assert "exceptionDetails" not in result, _text(result["exceptionDetails"])
    seen: Mapping[str, Any] = result["result"]["value"]
    return seen


def _text(details: Mapping[str, Any]) -> str:
    thrown = details.get("exception", {}).get("description", "")
    return f"{details['text']} {thrown}".rstrip()
