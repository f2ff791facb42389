"""`manage.py simulate FILE`: plays a scenario by the very rules that decide in production.

It needs no database and no server. The file's keys are described in `scheduling.simulator.fields`.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

import msgspec
from django.core.management.base import BaseCommand, CommandError, CommandParser
from tqdm import tqdm

from scheduling.management.summary_lines import summary_lines
from scheduling.management.whole_files import STANDARD_OUT, whole_file
from scheduling.simulator.engine import play
from scheduling.simulator.errors import InvalidScenario
from scheduling.simulator.log import ENDS
from scheduling.simulator.reading import read
from scheduling.simulator.report import Report
from scheduling.simulator.scenario import Scenario

Take = Callable[[dict[str, Any]], None]

LONG_RUN = 5000
"""From so many jobs on a terminal is shown how far the run is."""
STEP = 500
LINES_AT_ONCE = 100
MOST_ERRORS = 50
INVALID = 2


class Command(BaseCommand):
    """Reads, plays, and writes what was asked for."""

    help = "Play a scenario (YAML or JSON): who runs when, by which policy, and what it costs."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        """The scenario, what replaces parts of it, and where the outcome goes."""
        parser.add_argument("file", help="the scenario, YAML or JSON")
        parser.add_argument("--policy", help="a file whose policy replaces the scenario's")
        parser.add_argument("--seed", type=int, help="replaces the scenario's seed")
        parser.add_argument("--json", help="write each event as a line of JSON; - is the output")
        parser.add_argument("--report", help="write a report with pictures (HTML)")

    def handle(self, *_args: object, **options: Any) -> None:  # noqa: ANN401 - Django's own
        """Play the scenario; end with 2 and a line for each fault when something is wrong."""
        targets = {name: options[name] for name in ("json", "report") if options[name]}
        _refuse_same(options, targets)
        scenario = _read(options)
        _refuse_inputs(scenario, targets)
        log = self.stderr if STANDARD_OUT in targets.values() else self.stdout
        for note in scenario.notes:
            self.stderr.write(note, style_func=str)
        try:
            summary = _played(scenario, targets)
        except BrokenPipeError:
            raise CommandError("The reader of the output has gone.", returncode=1) from None
        except OSError as error:
            sentence = f"{error.filename or 'The output'} cannot be written: {error.strerror}."
            raise CommandError(sentence, returncode=INVALID) from None
        except KeyboardInterrupt:
            raise CommandError("Stopped; nothing was written.", returncode=130) from None
        log.write(f"{scenario.name}: {scenario.job_count:,} jobs", style_func=str)
        for line in summary_lines(summary):
            log.write(line, style_func=str)


def _refuse_same(options: dict[str, Any], targets: dict[str, str]) -> None:
    """No output may take the place of an input or of the other output."""
    taken = {Path(options[name]).resolve() for name in ("file", "policy") if options[name]}
    for name, target in targets.items():
        path = Path(target).resolve()
        if path in taken:
            message = f"--{name} would overwrite {target}, which this run reads or writes too."
            raise CommandError(message, returncode=INVALID)
        taken.add(path)


def _refuse_inputs(scenario: Scenario, targets: dict[str, str]) -> None:
    """Nor of the trace that the scenario plays."""
    for name, target in targets.items():
        if scenario.trace is not None and Path(target).resolve() == scenario.trace.resolve():
            message = f"--{name} would overwrite {target}, the trace that this run plays."
            raise CommandError(message, returncode=INVALID)


def _read(options: dict[str, Any]) -> Scenario:
    policy = Path(options["policy"]) if options["policy"] else None
    try:
        return read(Path(options["file"]), policy=policy, seed=options["seed"])
    except InvalidScenario as invalid:
        lines = [str(error) for error in invalid.errors[:MOST_ERRORS]]
        more = len(invalid.errors) - len(lines)
        lines += [f"and {more} more"] if more else []
        title = f"{options['file']} cannot be played:"
        raise CommandError("\n".join((title, *lines)), returncode=INVALID) from None


def _played(scenario: Scenario, targets: dict[str, str]) -> dict[str, Any]:
    """Play the scenario with what is asked for listening, and return the summary."""
    with ExitStack() as stack:
        outs = {name: stack.enter_context(whole_file(target)) for name, target in targets.items()}
        report = Report(scenario) if "report" in outs else None
        takers = [stack.enter_context(_writer(outs["json"]))] if "json" in outs else []
        takers += [report.take] if report is not None else []
        if scenario.job_count >= LONG_RUN and sys.stderr.isatty():
            takers.append(stack.enter_context(_progress(scenario)))

        def take(event: dict[str, Any]) -> None:
            for one in takers:
                one(event)

        summary = play(scenario, takers[0] if len(takers) == 1 else take)
        if report is not None:
            outs["report"].write(report.html(summary).encode())
    return summary


@contextmanager
def _writer(out: IO[bytes]) -> Iterator[Take]:
    """Write the events as lines, some at a time, which is faster."""
    encode = msgspec.json.Encoder().encode_lines
    lines: list[dict[str, Any]] = []

    def take(event: dict[str, Any]) -> None:
        lines.append(event)
        if len(lines) == LINES_AT_ONCE:
            whole = encode(lines)
            lines.clear()
            out.write(whole)

    try:
        yield take
    finally:
        out.write(encode(lines))


@contextmanager
def _progress(scenario: Scenario) -> Iterator[Take]:
    """Show how many of the jobs have ended."""
    ended = 0
    with tqdm(total=scenario.job_count, unit="job", file=sys.stderr) as bar:

        def take(event: dict[str, Any]) -> None:
            nonlocal ended
            if event["event"] in ENDS:
                ended += 1
                if ended % STEP == 0:
                    bar.update(STEP)

        yield take
        bar.update(ended % STEP)
