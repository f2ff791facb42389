"""A model server that plays the part that a conversation asks for: so many rounds of a tool, or jobs.

The first message of the user is the part, as JSON: `rounds` of calculator calls before the last
answer, or `jobs`: the payload of a job to submit and wait for. Each answer reports 10 tokens in and
5 out. What was asked is counted by the part's name and round.
"""

import contextlib
import json
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MODEL = "scripted"
USAGE = {"prompt_tokens": 10, "completion_tokens": 5}


class ScriptedModel:
    """The server; `asked` counts the requests by (name, round)."""

    def __init__(self, pause_s: float = 0.02) -> None:
        self.asked: Counter[tuple[str, int]] = Counter()
        self._lock = threading.Lock()
        self._pause_s = pause_s
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._send({"data": [{"id": MODEL}]})

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                self._send(server.answer(body["messages"]))

            def _send(self, body: dict[str, Any]) -> None:
                data = json.dumps(body).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                """Keep quiet."""

            def handle(self) -> None:
                with contextlib.suppress(ConnectionError):  # its worker was killed
                    super().handle()

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.address = f"http://127.0.0.1:{self._server.server_address[1]}/v1"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)

    def answer(self, messages: list[dict[str, Any]]) -> dict[str, Any]:
        part = json.loads(messages[0]["content"])
        number = sum(one["role"] == "assistant" for one in messages)
        with self._lock:
            self.asked[part["name"], number] += 1
        time.sleep(self._pause_s)
        return {
            "choices": [{"index": 0, "finish_reason": "stop", "message": _said(part, number)}],
            "usage": USAGE,
        }


def _said(part: dict[str, Any], number: int) -> dict[str, Any]:
    if number < part.get("rounds", 0):
        return _call("calculator", {"expression": f"{number} + 1"}, number)
    if number == 0 and "job" in part:
        return _call("submit_job", part["job"], number)
    return {"role": "assistant", "content": f"{part['name']} is done"}


def _call(name: str, arguments: dict[str, Any], number: int) -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    calls = [{"id": f"c{number}", "type": "function", "function": function}]
    return {"role": "assistant", "content": None, "tool_calls": calls}
