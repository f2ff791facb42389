"""`manage.py simulate`: plays a file without any server, writes whole files, tells faults plainly."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from scheduling.management.commands import simulate
from scheduling.management.whole_files import whole_file

ROOT = Path(__file__).resolve().parents[3]
TEXT = """
    name: small
    pools: [{name: p, budget: 1}]
    jobs: [{repeat: 3, id: "a{n}", tenant: A, duration: 5}]
"""


def run(*args):
    """Run the command; return what it wrote and what it complained of."""
    out, err = io.StringIO(), io.StringIO()
    call_command("simulate", *map(str, args), stdout=out, stderr=err)
    return out.getvalue(), err.getvalue()


def test_the_log_is_lines_of_json_that_end_with_the_summary(folder):
    log = folder.path / "log.jsonl"
    table, _ = run(folder.write(TEXT), "--json", log)
    events = [json.loads(line) for line in log.read_text().splitlines()]
    assert [event["seq"] for event in events[:-1]] == list(range(1, len(events)))
    assert sum(event["event"] == "finished" for event in events) == 3
    assert events[-1]["event"] == "summary"
    assert table.startswith("small: 3 jobs\n")
    assert "makespan" in table


def test_the_same_scenario_and_seed_give_the_same_bytes(folder):
    path = folder.write(TEXT.replace("duration: 5", "duration: 5, fails: 1"))
    first, second, other = (folder.path / name for name in ("1", "2", "3"))
    run(path, "--json", first, "--seed", 4)
    run(path, "--json", second, "--seed", 4)
    run(path, "--json", other, "--seed", 5)
    assert first.read_bytes() == second.read_bytes()
    assert first.read_bytes() != other.read_bytes()


def test_a_report_is_a_page_of_its_own(folder):
    page = folder.path / "report.html"
    run(folder.write(TEXT), "--report", page)
    assert "</html>" in page.read_text(encoding="utf-8")


def test_the_policy_of_another_file_is_the_one_in_force(folder):
    policy = folder.write("number: 7\n", "policy.yaml")
    log = folder.path / "log"
    run(folder.write(TEXT), "--policy", policy, "--json", log)
    assert json.loads(log.read_text().splitlines()[0])["policy"] == 7


def test_faults_are_told_a_line_each_and_end_with_2(folder):
    with pytest.raises(CommandError) as caught:
        run(folder.write("seed: x\nname: 1\n"))
    assert caught.value.returncode == 2
    assert str(caught.value).splitlines()[1:] == [
        "s.yaml:1: seed: Must be a whole number from -9223372036854775808 to 9223372036854775807.",
        "s.yaml:1: pools: Is missing; name at least one pool with its budget.",
    ]


def test_what_a_trace_left_out_is_said(folder):
    (folder.path / "log.swf").write_text(
        "1 0 -1 -1 1 -1 -1 1 5 -1 1 1 1 1 1 1 -1 -1\n2 0 -1 4 1 -1 -1 1 5 -1 1 1 1 1 1 1 -1 -1\n"
    )
    _, said = run(
        folder.write("pools: [{name: p, budget: 1}]\ntrace: {file: log.swf, format: swf}\n")
    )
    assert said == "log.swf: 1 jobs left out: no run time.\n"


@pytest.mark.parametrize("option", ["--json", "--report"])
def test_an_output_never_takes_the_place_of_the_scenario(folder, option):
    path = folder.write(TEXT)
    before = path.read_text()
    with pytest.raises(CommandError, match="would overwrite"):
        run(path, option, path)
    assert path.read_text() == before


def test_an_output_never_takes_the_place_of_the_trace(folder):
    trace = folder.path / "log.csv"
    trace.write_text('"arrival_s","client","input_tokens","output_tokens"\n0,a,1,1\n')
    text = "pools: [{name: p, budget: 1}]\ntrace: {file: log.csv, duration: {fixed: 5}}\n"
    with pytest.raises(CommandError, match="the trace that this run plays"):
        run(folder.write(text), "--json", trace)
    assert trace.read_text().startswith('"arrival_s"')


def test_a_report_on_the_standard_output_stands_there_alone(folder, capfdbinary):
    table, told = run(folder.write(TEXT), "--report", "-")
    assert (table, "makespan" in told) == ("", True)
    assert capfdbinary.readouterr().out.rstrip().endswith(b"</html>")


def test_a_place_that_cannot_be_written_to_is_named(folder):
    place = folder.path / "no" / "log"
    with pytest.raises(CommandError, match=r"no/log cannot be written: No such file") as caught:
        run(folder.write(TEXT), "--json", place)
    assert caught.value.returncode == 2


def test_a_run_that_breaks_off_leaves_the_old_file_and_nothing_beside_it(folder, monkeypatch):
    def broken(_scenario, take):
        take({"event": "admitted"})
        raise KeyboardInterrupt

    monkeypatch.setattr(simulate, "play", broken)
    path, log = folder.write(TEXT), folder.write("old", "log")
    with pytest.raises(CommandError, match="Stopped") as caught:
        run(path, "--json", log)
    assert caught.value.returncode == 130
    assert log.read_text() == "old"
    assert sorted(one.name for one in folder.path.iterdir()) == ["log", "s.yaml"]


def test_a_pipe_is_written_as_it_comes(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with whole_file(str(pipe)) as out:
        out.write(b"now")
        out.flush()
        assert os.read(reader, 9) == b"now"
    os.close(reader)


def test_progress_is_shown_for_a_long_run_on_a_terminal_alone(folder, monkeypatch, capsys):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    path = folder.write(TEXT)
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    run(path)
    assert terminal.getvalue() == ""
    monkeypatch.setattr(simulate, "LONG_RUN", 1)
    run(path)
    assert "3/3" in terminal.getvalue()


def test_it_runs_as_a_program_without_a_server_and_with_no_trace_of_python(folder):
    """The lines on standard output are the log alone; a wrong file ends with 2."""
    nowhere = {
        **os.environ,
        "DATABASE_URL": "postgres://nobody@127.0.0.1:1/none",
        "REDIS_URL": "redis://127.0.0.1:1/0",
        "TELEMACHUS_HOME": str(folder.path / "home"),
    }
    command = [sys.executable, str(ROOT / "manage.py"), "simulate"]
    good = subprocess.run(
        [*command, str(folder.write(TEXT)), "--json", "-"],
        capture_output=True, text=True, env=nowhere, check=True,
    )  # fmt: skip
    assert json.loads(good.stdout.splitlines()[-1])["event"] == "summary"
    assert "makespan" in good.stderr
    bad = subprocess.run(
        [*command, str(folder.write("a: [", "bad.yaml"))],
        capture_output=True, text=True, env=nowhere, check=False,
    )  # fmt: skip
    assert (bad.returncode, bad.stdout) == (2, "")
    assert "bad.yaml:1: Is no valid YAML" in bad.stderr
    assert "Traceback" not in bad.stderr
