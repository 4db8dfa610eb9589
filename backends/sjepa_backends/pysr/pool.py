"""Keep PySR workers for the next search: starting one takes Julia a minute or more."""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from sjepa_backends.pysr.process import Report, Worker


_lock = threading.Lock()
idle: dict[object, list[Worker]] = {}
workers: set[Worker] = set()


def _key(command: Sequence[str]) -> object:
    """Workers are interchangeable if they were started alike."""
    relevant = {k: v for k, v in os.environ.items() if k == "PATH" or "JULIA" in k or "PYTHON" in k}
    return (tuple(command), tuple(sorted(relevant.items())))


@contextmanager
def borrow(command: Sequence[str], startup_timeout: float, report: Report) -> Iterator[Worker]:
    """A worker that nobody else uses meanwhile; kept for later unless it misbehaved."""
    key = _key(command)
    with _lock:
        worker = _pop_idle(key) or _new(command)
    try:
        if not worker.ready:
            worker.start(startup_timeout, report)
        yield worker
    finally:
        with _lock:
            if worker.ready and not worker.busy and worker.alive:
                idle.setdefault(key, []).append(worker)
            else:
                _discard(worker)


def prepare(command: Sequence[str]) -> None:
    """Start a worker now, so that it is ready, or nearly, when a search asks for one."""
    key = _key(command)
    with _lock:
        worker = _pop_idle(key)
        if worker is not None or not any(w.command == tuple(command) for w in workers):
            idle.setdefault(key, []).append(worker or _new(command))


def _pop_idle(key: object) -> Worker | None:
    while idle.get(key):
        worker = idle[key].pop()
        if worker.alive:
            return worker
        _discard(worker)
    return None


def _new(command: Sequence[str]) -> Worker:
    worker = Worker(command)
    workers.add(worker)
    return worker


def _discard(worker: Worker) -> None:
    workers.discard(worker)
    worker.stop()


def stop_workers() -> None:
    """Stop every worker; the next search starts a fresh one. Runs by itself at exit."""
    with _lock:
        idle.clear()
        while workers:
            workers.pop().stop()


_inherited: list[Worker] = []  # keeps them from being collected, which would touch the processes


def _drop_inherited() -> None:
    """After a fork: the workers belong to the parent, and must see it when the parent goes."""
    global _lock
    _lock = threading.Lock()
    _inherited.extend(workers)
    for worker in workers:
        if worker.process.stdin is not None:
            worker.process.stdin.close()
    workers.clear()
    idle.clear()


atexit.register(stop_workers)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_drop_inherited)
