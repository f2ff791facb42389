"""The tools of flows: what each can do, and that nothing gets it to do more."""

import os
import threading
from pathlib import Path

import httpcore
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduling.executors.tools import http_get, registry
from scheduling.executors.tools.calculator import MOST_BITS, value_of
from scheduling.executors.tools.contract import MOST_CHARS, ToolFault, cut
from scheduling.kinds.flows.contract import Call
from scheduling.kinds.flows.tools import TOOL_SPECS
from tests.scheduling.executors.scripted import ScriptedServer, body, head


def run(name, **arguments):
    return registry.replied(name, arguments, threading.Event())


def fault(name, **arguments):
    with pytest.raises(ToolFault) as caught:
        run(name, **arguments)
    return str(caught.value)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("2 + 3 * 4", "14"),
        (" (1 + 2) ** 10 ", "59049"),
        ("7 // 2 + 7 % 4 - -1", "7"),
        ("1 / 4", "0.25"),
        ("sqrt(16) + max(1, 2, 3) + abs(-1)", "8.0"),
        ("round(pi, 2)", "3.14"),
        ("2 ** 1000", str(2**1000)),
        ("1e308 * 1", "1e+308"),
    ],
)
def test_the_calculator_works_out_arithmetic(expression, value):
    assert run("calculator", expression=expression) == value


@pytest.mark.parametrize(
    "expression",
    [
        "", "2 +", "1 / 0", "9 ** 9 ** 9", "2 ** 99999999", "(-8) ** 0.5", "sqrt(-1)", "1e308 * 10",
        "__import__('os')", "(1).__class__", "[1][0]", "x", "lambda: 1", "True", "'a' * 9", "1 if 1 else 2",
        "max()", "round(1, 'a')", "f'{1}'", "min(*[1])", "pow(2, 3)", "(" * 400, "1" * 1_001, "9" * 2_000,
        "a.b", "10 ** 500 * 1.5", "print(1)", "abs(x=1)", "1 << 9",
    ],
)  # fmt: skip
def test_the_calculator_refuses_everything_else_with_a_sentence(expression):
    assert fault("calculator", expression=expression).endswith(".")


@given(st.text(max_size=40))
def test_no_text_gets_more_out_of_the_calculator_than_a_number_or_a_fault(expression):
    try:
        value = value_of(expression)
    except ToolFault:
        return
    assert isinstance(value, int | float)


@given(st.integers(-(2**64), 2**64), st.integers(-(2**64), 2**64))
def test_whole_numbers_are_exact(left, right):
    assert value_of(f"({left}) * ({right}) + 1") == left * right + 1


def test_a_product_of_long_numbers_is_bounded():
    most = 2 ** (MOST_BITS // 2)
    assert len(f"{most}") < 1_000
    with pytest.raises(ToolFault, match="bits"):
        value_of("2 ** 2000 * 2 ** 2000 * 2 ** 2000")


@pytest.fixture
def folder(tmp_path, settings) -> Path:
    shared = tmp_path / "shared"
    (shared / "notes").mkdir(parents=True)
    (shared / "notes" / "a.txt").write_text("olá")
    (tmp_path / "secret.txt").write_text("secret")
    settings.FLOW_FILES_DIR = str(shared)
    return shared


def test_a_file_of_the_folder_is_read(folder):
    assert run("read_file", path="notes/a.txt") == "olá"
    assert run("read_file", path="./notes//a.txt") == "olá"


@pytest.mark.parametrize(
    "path",
    [
        "../secret.txt", "notes/../../secret.txt", "/etc/passwd", "", ".", "notes", "no.txt",
        "link.txt", "links/secret.txt", "pipe", "blob", "a\0b", "notes/a.txt/x", "x/" * 40 + "y",
    ],
)  # fmt: skip
def test_nothing_else_is_read(folder, path):
    (folder / "link.txt").symlink_to(folder.parent / "secret.txt")
    (folder / "links").symlink_to(folder.parent, target_is_directory=True)
    os.mkfifo(folder / "pipe")
    (folder / "blob").write_bytes(b"a\0b")
    said = fault("read_file", path=path)
    assert "secret" not in said.replace(path, "")


def test_a_long_file_is_cut_and_says_so(folder):
    (folder / "long.txt").write_text("x" * (MOST_CHARS + 7))
    assert run("read_file", path="long.txt").endswith("[7 more characters are left out]")
    assert cut("short") == "short"


def test_without_a_folder_there_is_nothing_to_read(settings):
    settings.FLOW_FILES_DIR = ""
    assert "No folder" in fault("read_file", path="a")
    settings.FLOW_FILES_DIR = "/nowhere/at/all"
    assert "may be read" in fault("read_file", path="a")


@pytest.fixture
def server(settings):
    one = ScriptedServer()
    settings.FLOW_HTTP_HOSTS = [one.address.removeprefix("http://")]
    yield one
    one.close()


def test_a_listed_address_is_read(server):
    server.answer(body("hello", Content_Type="text/plain; charset=latin-1"))
    assert run("http_get", url=f"{server.address}/page?x=1#top") == "hello"
    (talk,) = server.talks
    assert (talk.method, talk.path) == ("GET", "/page?x=1")
    assert talk.headers["host"] in server.address


def test_a_status_is_told_and_an_unknown_charset_is_read_as_utf_8(server):
    server.answer(body("gone", "404 Not Found", Content_Type="text/html; charset=martian"))
    assert run("http_get", url=server.address) == "[status 404]\ngone"


def test_a_redirect_is_followed_inside_the_list_and_not_beyond(server):
    server.answer(head("302 Found", Location="/two", Content_Length="0", Connection="close"))
    server.answer(body("second"))
    assert run("http_get", url=f"{server.address}/one") == "second"
    assert [talk.path for talk in server.talks] == ["/one", "/two"]


@pytest.mark.parametrize("where", ["http://evil.example/", "file:///etc/passwd", "//127.0.0.1:1/x"])
def test_a_redirect_off_the_list_is_refused(server, where):
    server.answer(head("302 Found", Location=where, Content_Length="0", Connection="close"))
    assert fault("http_get", url=server.address)
    assert len(server.talks) == 1


def test_redirects_end(server):
    server.answer(head("302 Found", Location="/", Content_Length="0", Connection="close"))
    assert "sent on" in fault("http_get", url=server.address)


@pytest.mark.parametrize(
    ("answer", "word"),
    [
        ((body("x", Content_Type="image/png"),), "no text"),
        ((body("x" * 1_000_001, Content_Type="text/plain"),), "longer"),
        ((body("x", Content_Type="text/plain", Content_Encoding="gzip"),), "packed"),
        ((b"nonsense\r\n\r\n",), "could not be read"),
        ((), "could not be read"),
    ],
)
def test_an_answer_that_is_no_fit_text_is_refused(server, answer, word):
    server.answer(*answer)
    assert word in fault("http_get", url=server.address)


def test_a_silent_server_is_given_up(server, monkeypatch):
    monkeypatch.setattr(http_get, "MOST_S", 0.3)
    server.answer(lambda _talk: server.closing.wait(2))
    assert "within 0.3 seconds" in fault("http_get", url=server.address)


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:1/", "http://localhost/", "http://other.example/", "ftp://127.0.0.1/",
        "http://user:pw@listed.example/", "http://listed.example:8080/", "no address", "http://[x",
        "http://listed.example/\r\nX: y", "http://listed.example:99999/", "http://listed.exämple/",
        "http://listed.example.evil.example/", "", "http://" + "a" * 3_000,
    ],
)  # fmt: skip
def test_an_address_that_is_not_listed_is_never_asked(settings, monkeypatch, url):
    settings.FLOW_HTTP_HOSTS = ["listed.example"]
    monkeypatch.setattr(httpcore, "ConnectionPool", None)  # a try would be a fault of another kind
    assert "failed" not in fault("http_get", url=url)


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "64:ff9b::a00:1"]
)
def test_a_listed_name_that_stands_for_a_private_address_is_refused(settings, monkeypatch, address):
    settings.FLOW_HTTP_HOSTS = ["Listed.example"]
    found = [(0, 0, 0, "", (address, 80))]
    monkeypatch.setattr(http_get.socket, "getaddrinfo", lambda *_, **__: found)
    assert "private network" in fault("http_get", url="http://listed.example/")


def test_the_connection_goes_to_the_address_that_was_checked(settings, monkeypatch):
    settings.FLOW_HTTP_HOSTS = ["listed.example"]
    asked = []

    def resolve(host, port, **_):
        asked.append(host)
        return [(0, 0, 0, "", ("93.184.215.14" if len(asked) == 1 else "127.0.0.1", port))]

    reached = []

    def connect(_self, host, *_, **__):
        reached.append(host)
        raise httpcore.ConnectError

    monkeypatch.setattr(http_get.socket, "getaddrinfo", resolve)
    monkeypatch.setattr(httpcore.SyncBackend, "connect_tcp", connect)
    assert "could not be read" in fault("http_get", url="http://listed.example/")
    assert (asked, reached) == (["listed.example"], ["93.184.215.14"])


def asked(arguments, name="calculator"):
    return Call(key="0.0", id="c", name=name, arguments=arguments)


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ("not json", "JSON object"),
        ("[1]", "JSON object"),
        ("{}", "must be given"),
        ("", "must be given"),
        ('{"expression": "1", "precision": 3}', "takes expression"),
        ('{"expression": 1}', "must be of type string"),
        ("[" * 100_000, "JSON object"),
        ('{"expression": NaN}', "JSON object"),
        ('{"expression": 1e999}', "JSON object"),
    ],
)
def test_arguments_are_checked_by_name_and_type(arguments, word):
    with pytest.raises(ToolFault, match=word):
        registry.arguments_of(asked(arguments), TOOL_SPECS["calculator"])


def test_good_arguments_are_read():
    given_ = registry.arguments_of(asked('{"expression": "1"}'), TOOL_SPECS["calculator"])
    assert given_ == {"expression": "1"}


def test_a_fault_of_a_tool_itself_is_told_without_its_text(monkeypatch):
    def broken(*_):
        raise KeyError("secret")

    monkeypatch.setattr(registry, "EFFECTS", {"calculator": broken})
    assert fault("calculator", expression="1") == "The tool failed (KeyError)."
