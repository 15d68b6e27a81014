"""A file server on this machine, which serves a file or fails in every way that networks do, and who asks it."""

import threading
from contextlib import contextmanager, suppress
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from vit_tutorial.data.download import fetch


@contextmanager
def serving(answer):
    """Start a server whose `answer(handler, over)` answers a request. Give its address, and the requests so far."""
    requests, over = [], threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            requests.append(self.path)
            with suppress(ConnectionError):
                answer(self, over)

        def log_message(self, *args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", requests
    finally:
        over.set()
        server.shutdown()
        server.server_close()


def begin(handler, length=None):
    handler.send_response(200)
    if length is not None:
        handler.send_header("Content-Length", str(length))
    handler.end_headers()


def whole(content, handler, over):
    begin(handler, len(content))
    handler.wfile.write(content)


def cut_off(content, handler, over, length=None):
    begin(handler, length or len(content))
    handler.wfile.write(content[: len(content) // 2])


def stalling(content, handler, over):
    cut_off(content, handler, over)
    over.wait(20)


def trickling(content, handler, over):
    """A byte now and then, so that the connection never times out."""
    begin(handler, len(content))
    trickle(content, handler, over)


def trickling_headers(content, handler, over):
    trickle(b"HTTP/1.0 200 OK\r\nServer: a slow one, with much to say about itself\r\n\r\n", handler, over)


def trickle(content, handler, over):
    for byte in content[:40]:
        handler.wfile.write(bytes([byte]))
        if over.wait(0.1):
            return


def endless(content, handler, over):
    begin(handler)
    for _ in range(200):  # 13 MB: more than any file here, and not a full disk if the test fails
        handler.wfile.write(bytes(2**16))


# How the network fails: an answer `(content, handler, over)`, and what the message must show.
FAILURES = {
    "cut off": (cut_off, "cut off"),
    "another file": (lambda content, *rest: whole(content[::-1], *rest), "another file"),
    "a web page": (lambda content, *rest: whole(b"<html>please log in</html>", *rest), "26 bytes"),
    "stalls": (stalling, "timed out"),
    "trickles": (trickling, "bytes in"),
    "trickles its headers": (trickling_headers, "timed out"),
    "never answers": (lambda content, handler, over: over.wait(20), "timed out"),
    "throttled": (lambda content, handler, over: handler.send_error(503, "throttled"), "503"),
    "never ends": (endless, "at most"),
    "announces too much": (partial(cut_off, length=5_000_000), "5,000,000 bytes"),
    "announces no number": (partial(cut_off, length="abc"), "cut off"),
}


def begin_and_fetch(url: str, path: Path, sha256: str, size: int) -> None:
    """What a test starts in processes of their own, twice at once."""
    print("begun", flush=True)
    fetch(url, path, sha256, size)


def everything_in(folder: Path) -> list[str]:
    """Return every file except for the empty ones that a lock leaves."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.suffix != ".lock")
