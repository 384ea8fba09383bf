"""A small web server on the loopback interface that counts requests and can simulate faults."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar
from urllib.parse import quote, unquote


class Site:
    """The served content, and the counted requests."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.etags: dict[str, str] = {}
        self.cut: set[str] = set()
        """Paths of which only half the content is served, with the full content length."""
        self.refused: dict[str, int] = {}
        """Paths answered with this status."""
        self.echoing = False
        """Whether every request fails, with its decoded path in the reason; below /moved/ after a redirect."""
        self.delay_s = 0.0
        self.requested: list[str] = []
        self.url = ""


class _Answer(BaseHTTPRequestHandler):
    site: ClassVar[Site]

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self.site.requested.append(self.path)
        time.sleep(self.site.delay_s)
        self._answer(body=True)

    def do_PUT(self) -> None:
        if self.site.echoing:
            self._answer(body=False)
            return
        content = b""
        while size := int(self.rfile.readline(), 16):
            content += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        self.site.files[self.path] = content
        self.send_response(201)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _echo(self) -> None:
        moved = self.path.startswith("/moved/")
        self.send_response_only(302 if moved else 500, quote(unquote(self.path), safe="/?&=~ +"))
        if moved:
            self.send_header("Location", self.path.removeprefix("/moved"))
        self.send_header("Content-Length", "0")
        self.end_headers()
        self.close_connection = True

    def _answer(self, *, body: bool) -> None:
        if self.site.echoing:
            self._echo()
            return
        content = self.site.files.get(self.path)
        status = self.site.refused.get(self.path, 404 if content is None else 200)
        if content is None or status != 200:
            self.send_error(status)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        if self.path in self.site.etags:
            self.send_header("ETag", self.site.etags[self.path])
        self.end_headers()
        if body:
            half = self.path in self.site.cut
            self.wfile.write(content[: len(content) // 2] if half else content)
            self.close_connection = True

    def log_message(self, *args: object) -> None:
        pass


@contextmanager
def serving() -> Iterator[Site]:
    site = Site()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Answer", (_Answer,), {"site": site}))
    server.daemon_threads = True
    server.handle_error = lambda *_: None  # a client may close its connection at any time
    site.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield site
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
