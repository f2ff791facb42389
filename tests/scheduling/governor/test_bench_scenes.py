"""What the benchmarks fill a database with is what today's tables take, and what a governor loads."""

from django.db import connection

from bench import board_scene, size
from scheduling.models import Attempt, Job, JobEvent, Pool
from tests.scheduling.governor.desk import Desk


def test_the_scene_of_the_boards_waits_in_a_governors_order(desk: Desk) -> None:
    assert len(board_scene.make(30, 5)["operators"]) == board_scene.OPERATORS
    order = desk.state(Pool.objects.get(slug="default")).order
    assert len(order) == Job.objects.filter(state="queued").count() == 30


def test_a_full_database_has_ended_jobs_with_their_books_and_others_that_wait(desk: Desk) -> None:
    with connection.cursor() as cursor:
        cursor.execute(size.TENANTS.format(tenants=3))
        for ended, count in (("true", 40), ("false", 20)):
            cursor.execute(size.JOBS.format(ended=ended, count=count, tenants=3))
        cursor.execute(size.HISTORY)
    counts = (Job.objects.count(), Attempt.objects.count(), JobEvent.objects.count())
    assert counts == (60, 40, 120)
    assert len(desk.leader.book.rows) == 20
