"""An S3 server for the tests: moto's, one request at a time.

moto checks the conditions of a request and carries it out in two steps; one lock around both makes conditional writes what they
are in a real store. Prints its port when it listens. Ends with its standard input.
"""

import io
import os
import sys
import threading

from moto.moto_server.werkzeug_app import (
    DomainDispatcherApplication,
    MotoRequestHandler,
    create_backend_app,
)
from werkzeug.serving import make_server


class OneAtATime:
    def __init__(self, app):
        self._app = app
        self._lock = threading.Lock()

    def __call__(self, environ, start_response):
        # A body that comes slowly, or never ends, keeps nobody else waiting.
        length = int(environ.get("CONTENT_LENGTH") or 0)
        body = environ["wsgi.input"].read(length)
        if len(body) < length:
            start_response("400 Bad Request", [("Content-Length", "0")])
            return []
        environ["wsgi.input"] = io.BytesIO(body)
        # Like a store of the time before conditional writes.
        if environ["PATH_INFO"].startswith("/careless-"):
            environ.pop("HTTP_IF_NONE_MATCH", None)
        with self._lock:
            return self._app(environ, start_response)


class QuietHandler(MotoRequestHandler):
    def log_request(self, *_):
        pass


def main():
    app = OneAtATime(DomainDispatcherApplication(create_backend_app))
    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=QuietHandler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.port, flush=True)
    sys.stdin.read()
    os._exit(0)


main()
