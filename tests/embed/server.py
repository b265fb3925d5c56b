"""A web server with a worker in it, as small as one can be: python -m tests.embed.server PORT.

Like any server that shuts down in good order, it answers its last request after SIGTERM and then
ends as an ordinary process. (An exception raised by the handler would not do: wsgiref answers it.)
Prints the port once it listens. /fork answers what a forked child believes.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

from django.core.wsgi import get_wsgi_application

# Imported before the apps are loaded, where a sorter of imports would put it.
from skipper_django.embed import Handle, start_worker

application = get_wsgi_application()


def forked(handle: Handle) -> bytes:
    reader, writer = os.pipe()
    if not os.fork():
        from skipper_django import conf
        from skipper_django.overview import current_member_id

        seen = [handle.is_running, handle.member_id, current_member_id(conf.load()), handle.stop()]
        os.write(writer, json.dumps(seen).encode())
        os._exit(0)
    os.wait()
    return os.read(reader, 1000)


def main() -> None:
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    handle = start_worker(concurrency=2, shutdown_timeout=float(sys.argv[1]))
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before

    def serve(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if environ["PATH_INFO"] != "/fork":
            return application(environ, start_response)
        start_response("200 OK", [])
        return [forked(handle)]

    class Handler(WSGIRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            pass

    with make_server("127.0.0.1", 0, serve, handler_class=Handler) as server:
        stop = threading.Thread(target=server.shutdown)
        signal.signal(signal.SIGTERM, lambda *_: stop.start())
        sys.stdout.write(f"{server.server_port}\n")
        sys.stdout.flush()
        server.serve_forever()


if __name__ == "__main__":
    main()
