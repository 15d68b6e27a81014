"""A file server on this machine, so that downloads are real ones."""

import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

NOBODY = "http://127.0.0.1:9"  # nothing listens there


@contextmanager
def serving(content: bytes, announced: int | None = None):
    """Answer every request with these bytes, of which more may be announced. Give the address, and the requests."""
    requests = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            requests.append(self.path)
            self.send_response(200)
            self.send_header("Content-Length", str(announced or len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *args):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", requests
        server.shutdown()
