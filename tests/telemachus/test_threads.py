"""Workers' threads: one that becomes free asks for work at once."""

import socket
import threading
import time

from celery.concurrency import get_implementation
from kombu.asynchronous import Hub, get_event_loop, set_event_loop

from telemachus.celery import app
from telemachus.threads import TaskPool


def test_a_thread_that_has_ended_its_work_wakes_the_loop_that_fetches_messages():
    before, loop = get_event_loop(), Hub()
    done = threading.Event()
    set_event_loop(loop)
    pool = TaskPool(1, app=app)
    pool.start()
    quiet, other = socket.socketpair()
    too_late = threading.Timer(8, loop.call_soon, (int,))  # a loop that sleeps on fails, not hangs
    loop.add_reader(quiet, int)
    loop.call_later(600, int)
    loop.fire_timers = lambda **_: 60.0  # it would look once a second by itself
    try:
        too_late.start()
        pool.apply_async(lambda: (time.sleep(0.2), done.set()), (), {})
        while not done.is_set():
            loop.run_once()
        assert too_late.is_alive()
    finally:
        too_late.cancel()
        too_late.join()
        pool.stop()
        loop.close()
        set_event_loop(before)
        quiet.close()
        other.close()


def test_what_workers_are_told_to_use_as_threads_is_this_pool():
    assert app.main == "telemachus"
    assert get_implementation("threads") is TaskPool
