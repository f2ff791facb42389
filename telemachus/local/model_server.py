"""The demo's model server: a small OpenAI-compatible HTTP server that really translates.

    python -m telemachus.local.model_server --port 8765 [--delay 0.5]

It listens on loopback only. `--delay` waits that many seconds before each answer, to stand in for
a larger model. SIGTERM and SIGINT stop it gently: no new connections, answers under way are
finished. One log line a request tells status, tokens and time, never content.
"""

import argparse
import json
import logging
import signal
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Condition, Event, Thread
from typing import Any

from telemachus.local import model_api
from telemachus.local.model_api import ApiError, Model, Reply
from telemachus.local.translator import EnglishToPortuguese, TranslatorMissing

HOST = "127.0.0.1"
MAX_BODY_BYTES = 1_000_000
DRAINED_BYTES = 8_000_000
"""So much of a refused body is read and dropped: a client that still sends would not see the answer."""
IDLE_CONNECTION_S = 30
STOP_WAIT_S = 10.0

log = logging.getLogger("telemachus.model_server")


class ModelServer(ThreadingHTTPServer):
    """The server and what its request threads share."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, port: int, model: Model, delay_s: float = 0.0) -> None:
        super().__init__((HOST, port), ModelHandler)
        self.model = model
        self.delay_s = delay_s
        self.stopping = Event()
        self._busy = 0
        self._idle = Condition()

    def __enter__(self) -> "ModelServer":
        return self

    def begin(self) -> None:
        """A request is being answered."""
        with self._idle:
            self._busy += 1

    def end(self) -> None:
        """A request has been answered, or its client has gone."""
        with self._idle:
            self._busy -= 1
            self._idle.notify_all()

    def stop(self) -> None:
        """Take no more connections, and wait for the answers under way; needs its own thread."""
        self.stopping.set()
        self.shutdown()
        with self._idle:
            self._idle.wait_for(lambda: self._busy == 0, STOP_WAIT_S)

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that hangs up is no fault; anything else is logged by its type."""
        error = sys.exc_info()[1]
        if not isinstance(error, ConnectionError | TimeoutError):
            log.error("request thread failed: %s", type(error).__name__)


class ModelHandler(BaseHTTPRequestHandler):
    """One connection; its requests one after another."""

    server: ModelServer
    protocol_version = "HTTP/1.1"
    server_version = "telemachus-demo"
    sys_version = ""
    timeout = IDLE_CONNECTION_S
    disable_nagle_algorithm = True
    _head_sent = False

    def do_GET(self) -> None:
        routes: dict[str, Callable[[], dict[str, Any]]] = {
            "/v1/models": model_api.model_list,
            "/healthz": lambda: {"status": "ok"},
        }
        self._answer(lambda: self._get(routes))

    def do_POST(self) -> None:
        self._answer(self._post)

    def log_message(self, format: str, *args: object) -> None:
        """Malformed requests only reach this: told without their text, which may be content."""
        del format, args
        log.warning("malformed request refused")

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Our own line is written at the end of the request."""

    def _answer(self, work: Callable[[], str]) -> None:
        """Run the work of one request; every end of it is counted and gets its log line."""
        started = time.monotonic()
        self.server.begin()
        told = "stopped"
        try:
            told = self._told(work)
        except (ConnectionError, TimeoutError):
            self.close_connection = True
            told = "client gone"
        finally:
            took, path = time.monotonic() - started, self.path[:80].partition("?")[0]
            log.info("%s %s %s in %.3f s", self.command, path, told, took)
            self.server.end()

    def _told(self, work: Callable[[], str]) -> str:
        """Do the work, and answer with an error body where it fails before it has answered."""
        self._head_sent = False
        try:
            return work()
        except ApiError as error:
            return self._send_error_body(error)
        except (ConnectionError, TimeoutError):
            raise
        except Exception as error:  # noqa: BLE001 (the model's fault; told by its type, not content)
            message = f"the translation failed ({type(error).__name__})"
            return self._send_error_body(ApiError(500, "translation_failed", message))

    def _send_error_body(self, error: ApiError) -> str:
        # What of the request was not read would be taken for the next one; a stream just ends.
        self.close_connection = True
        if not self._head_sent:
            self._send(error.status, error.body)
        return f"{error.status} {error.code}"

    def _get(self, routes: dict[str, Callable[[], dict[str, Any]]]) -> str:
        route = routes.get(self.path.partition("?")[0])
        if route is None:
            raise ApiError(404, "not_found", f"there is nothing here; try {', '.join(routes)}")
        self._send(200, route())
        return "200"

    def _post(self) -> str:
        if self.path.partition("?")[0] != "/v1/chat/completions":
            raise ApiError(404, "not_found", "there is nothing here; try /v1/chat/completions")
        request = model_api.read_request(self._body())
        reply = Reply(model=self.server.model, request=request)
        frame = {
            "id": f"chatcmpl-{uuid.uuid4().hex}",
            "created": int(time.time()),
            "model": model_api.MODEL_ID,
        }
        self.server.stopping.wait(self.server.delay_s)
        if request.stream:
            self._send_stream(model_api.chunks(reply, frame))
        else:
            self._send(200, model_api.completion(reply, "".join(reply), frame))
        counts = reply.usage()
        return f"200 {counts['prompt_tokens']} tokens in {counts['completion_tokens']} out"

    def _body(self) -> bytes:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal():
            raise ApiError(411, "length_required", "the request needs a Content-Length header")
        if int(length[:12]) > MAX_BODY_BYTES:
            self._drop(min(int(length[:12]), DRAINED_BYTES))
            message = f"the request body is larger than {MAX_BODY_BYTES:,} bytes"
            raise ApiError(413, "too_large", message)
        return self.rfile.read(int(length))

    def _drop(self, count: int) -> None:
        while count > 0 and (data := self.rfile.read(min(count, 65_536))):
            count -= len(data)

    def _send(self, status: int, body: dict[str, Any]) -> None:
        data = json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
        self._send_head(status, "application/json", ("Content-Length", str(len(data))))
        self.wfile.write(data)

    def _send_stream(self, chunks: Iterator[dict[str, Any]]) -> None:
        self._send_head(200, "text/event-stream", ("Transfer-Encoding", "chunked"))
        for chunk in chunks:
            self._send_event(json.dumps(chunk, ensure_ascii=False))
        self._send_event("[DONE]")
        self.wfile.write(b"0\r\n\r\n")

    def _send_event(self, text: str) -> None:
        data = f"data: {text}\n\n".encode("utf-8", "replace")
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def _send_head(self, status: int, content_type: str, framing: tuple[str, str]) -> None:
        self._head_sent = True
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header(*framing)
        if self.server.stopping.is_set() or self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()


def main(arguments: list[str] | None = None) -> int:
    """Run until SIGTERM or SIGINT; exit status 2 where the server cannot start."""
    options = _options(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    try:
        EnglishToPortuguese.require()
        server = ModelServer(options.port, EnglishToPortuguese(), options.delay)
    except TranslatorMissing as error:
        return _refuse_to_start(str(error))
    except OSError as error:
        return _refuse_to_start(f"cannot listen on {HOST}:{options.port}: {error.strerror}")
    with server:
        _serve(server)
    return 0


def _refuse_to_start(reason: str) -> int:
    log.error("%s", reason)
    return 2


def _serve(server: ModelServer) -> None:
    stopper = Thread(target=server.stop, name="stop")

    def on_signal(number: int, frame: object) -> None:
        del number, frame
        if not server.stopping.is_set():  # a second signal changes nothing
            server.stopping.set()
            stopper.start()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_signal)
    log.info("listening on http://%s:%s, model %s", HOST, server.server_port, model_api.MODEL_ID)
    server.serve_forever(poll_interval=0.1)
    stopper.join()


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="model_server", description="The demo's model server.")
    parser.add_argument("--port", type=_port, required=True, help="0 picks a free port")
    parser.add_argument("--delay", type=_delay, default=0.0, help="seconds before each answer")
    return parser.parse_args(arguments)


def _port(text: str) -> int:
    if text.isdecimal() and int(text) <= 65_535:
        return int(text)
    message = f"{text!r} is not a port; give a number from 0 to 65535"
    raise argparse.ArgumentTypeError(message)


def _delay(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if 0 <= seconds <= 3_600:
        return seconds
    message = f"{text!r} is not a delay; give seconds from 0 to 3600"
    raise argparse.ArgumentTypeError(message)


if __name__ == "__main__":
    sys.exit(main())
