"""`manage.py demo_run`: the demo's jobs through a running system, and what they showed."""

import sys
import time

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import InterfaceError, OperationalError, connection
from tqdm import tqdm

from telemachus.demo.clients import SubmissionFailed, submit_all, submit_reviewed
from telemachus.demo.findings import FIRST_PLACED, Findings, counts, findings
from telemachus.demo.scene import OPERATOR, PARTS, Scene, scene_set
from telemachus.demo.telling import lines

POLL_S = 0.25
ENDED = ("done", "failed", "canceled", "expired", "denied")


class Command(BaseCommand):
    """Submits as three tenants, watches, reports; fails when a promise was not kept."""

    help = "Run the demo's 150 translations through a running system and report."

    def add_arguments(self, parser: CommandParser) -> None:
        """Where the system and its model are, and how long to wait."""
        parser.add_argument("--url", required=True, help="the system's address")
        parser.add_argument("--model-url", required=True, help="the model server's address")
        parser.add_argument("--expected", type=float, default=0.5, help="seconds a job should take")
        parser.add_argument("--timeout", type=float, default=170.0, help="seconds to wait at most")

    def handle(self, *_args: object, **options: str) -> None:
        """Set the scene, submit, wait, report."""
        scene = scene_set(endpoint=options["model_url"], expected_s=float(options["expected"]))
        try:
            for one in submit_all(scene, options["url"]):
                self.stdout.write(f"{one.slug}: {len(one.job_ids)} jobs taken. {one.first}")
        except SubmissionFailed as failed:
            raise CommandError(str(failed)) from failed
        self._watch(scene, float(options["timeout"]))
        found = findings(scene.mission)
        for line in lines(found):
            self.stdout.write(line)
        self.stdout.write("")
        self._leave_a_review(scene, options["url"])
        self.stdout.write(f"The board: {options['url']}  (the API's page: /api/v1/docs/)")
        viewers = ", ".join(f"{part.slug}-viewer" for part in PARTS)
        self.stdout.write(f"Log in as {OPERATOR} with {scene.password}")
        self.stdout.write(f"or, to see one tenant only, as {viewers} with the same password.")
        broken = broken_promises(found)
        if broken:
            raise CommandError("The demo did not keep its promises: " + "; ".join(broken))

    def _leave_a_review(self, scene: Scene, url: str) -> None:
        try:
            submit_reviewed(scene, url)
        except SubmissionFailed as failed:
            raise CommandError(str(failed)) from failed
        self.stdout.write(f"One more translation waits for your verdict: {url}reviews/")

    def _watch(self, scene: Scene, timeout_s: float) -> None:
        total = sum(part.jobs for part in PARTS)
        end = time.monotonic() + timeout_s
        with tqdm(total=total, unit="job", file=sys.stderr, mininterval=0.5) as bar:
            while bar.n < total:
                states = _counts(scene.mission)
                if states is None:
                    time.sleep(POLL_S)
                    continue
                bar.update(sum(states.get(state, 0) for state in ENDED) - bar.n)
                bar.set_postfix(running=states.get("running", 0), refresh=False)
                if time.monotonic() > end:
                    message = f"not all jobs ended within {timeout_s:.0f} s: {states}"
                    raise CommandError(message)
                time.sleep(POLL_S)


def _counts(mission: str) -> dict[str, int] | None:
    """Return the run's jobs by state; None while the database is away."""
    try:
        return counts(mission)
    except (OperationalError, InterfaceError):
        connection.close()
        return None


def broken_promises(found: Findings) -> list[str]:
    """Return what a demo must never show."""
    broken = list(found.faults)
    if not found.lawful:
        broken.append("a tenant was served more than law 2 allows")
    if found.smallest_place > FIRST_PLACED:
        broken.append(f"the smallest tenant's first job was placed {found.smallest_place}th")
    if not found.translation:
        broken.append("no text was translated")
    return broken
