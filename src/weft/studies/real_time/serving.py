"""Serving: files on a web server of this host, which counts how often each is fetched."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

__all__ = ["Served", "serving"]


class Served(NamedTuple):
    """A server that runs."""

    url: str
    fetched: Counter[str]
    """By name."""


@contextmanager
def serving(files: Mapping[str, bytes]) -> Iterator[Served]:
    """Serve files, by name, on a port that is free."""
    fetched: Counter[str] = Counter()

    class Answer(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self._head()

        def do_GET(self) -> None:
            content = self._head()
            if content is not None:
                fetched[self.path.lstrip("/")] += 1
                self.wfile.write(content)

        def _head(self) -> bytes | None:
            content = files.get(self.path.lstrip("/"))
            if content is None:
                self.send_error(404)
                return None
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.send_header("ETag", f'"{len(content)}"')
            self.end_headers()
            return content

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield Served(f"http://127.0.0.1:{server.server_port}", fetched)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
