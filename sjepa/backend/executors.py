"""Where work is done: one meaning of ``executor=`` everywhere.

``"local"`` is this process, or `workers` processes by joblib; ``"dask"`` and ``"ray"`` are the
cluster that is connected, or one of this machine; anything with a ``submit`` is used as it is, such
as a Dask client or an executor of ``concurrent.futures``.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from ipaddress import ip_address
from typing import Any

from sjepa.errors import ConfigError, MissingDependency
from sjepa.settings import whole_of


logger = logging.getLogger(__name__)


EXECUTORS = ("local", "dask", "ray")
# Times a task is started again after its worker was lost, and tasks that wait beside those running.
RETRIES, AHEAD = 5, 4


def run_on(
    executor: Any, function: Callable[..., Any], items: Iterable[Any], workers: int = 1
) -> Iterator[Any]:
    """``function(number, item)`` of every item, in the order of the items.

    Results come in that order whoever computed them, so what is made of them does not depend on
    how many workers there are or which of them are lost. Only a few items are taken ahead.
    """
    check_executor(executor)
    workers = whole_of(workers, "workers", 1)
    jobs = enumerate(items)
    if executor == "local":
        return _local(function, jobs, workers)
    if executor == "dask":
        return _dask(function, jobs, workers)
    if executor == "ray":
        return _ray(function, jobs, workers)
    return _submitted(executor, function, jobs)


def check_executor(executor: Any) -> None:
    known = isinstance(executor, str) and executor in EXECUTORS
    if not known and not hasattr(executor, "submit"):
        raise ConfigError(
            f"executor is one of {', '.join(EXECUTORS)} or has a submit, got {executor!r:.60}.",
            "executor",
        )


def _local(
    function: Callable[..., Any], jobs: Iterable[tuple[int, Any]], workers: int
) -> Iterator[Any]:
    if workers == 1:
        yield from (function(i, item) for i, item in jobs)
        return
    import joblib

    pool = joblib.Parallel(n_jobs=workers, return_as="generator", pre_dispatch="n_jobs + 2")
    yield from pool(joblib.delayed(function)(i, item) for i, item in jobs)


def _submitted(
    client: Any, function: Callable[..., Any], jobs: Iterable[tuple[int, Any]]
) -> Iterator[Any]:
    options = {"pure": False, "retries": RETRIES} if hasattr(client, "scheduler_info") else {}

    def submit(i: int, item: Any) -> Any:
        if hasattr(item, "__dask_graph__"):  # a part of a collection: it is made where it is used
            import dask

            return client.compute(dask.delayed(function)(i, item), retries=RETRIES)
        return client.submit(function, i, item, **options)

    ahead = AHEAD
    if options:
        ahead += sum(w["nthreads"] for w in client.scheduler_info(n_workers=-1)["workers"].values())
    yield from _in_order(submit, lambda future: future.result(), jobs, ahead)


def _dask(
    function: Callable[..., Any], jobs: Iterable[tuple[int, Any]], workers: int
) -> Iterator[Any]:
    try:
        from dask.distributed import Client, default_client
    except ImportError:
        raise MissingDependency("executor='dask' needs: pip install 'dask[distributed]'") from None
    try:
        client = default_client()
    except ValueError:  # none is connected
        with Client(n_workers=workers, threads_per_worker=1, dashboard_address=None) as client:
            yield from _submitted(client, function, jobs)
        return
    yield from _submitted(client, function, jobs)


def _ray(
    function: Callable[..., Any], jobs: Iterable[tuple[int, Any]], workers: int
) -> Iterator[Any]:
    try:
        import ray
    except ImportError:
        raise MissingDependency("executor='ray' needs: pip install 'ray'") from None
    if not ray.is_initialized():
        _start_ray(workers)

    def call(number: int, item: Any) -> Any:  # Ray takes functions only, not what can be called
        return function(number, item)

    task = ray.remote(call).options(max_retries=RETRIES)
    yield from _in_order(task.remote, ray.get, jobs, AHEAD + int(ray.cluster_resources()["CPU"]))


def _start_ray(workers: int) -> None:
    """A cluster of this machine, which nobody else can reach.

    Whoever reaches Ray's ports can run code. It listens on all of them, whatever address it is
    given, unless it takes this for a system on which it knows no clusters.
    """
    import ray
    from ray._private import ray_constants as constants

    before, constants.ENABLE_RAY_CLUSTER = constants.ENABLE_RAY_CLUSTER, False
    try:
        ray.init(num_cpus=workers, include_dashboard=False, log_to_driver=False)
    finally:
        constants.ENABLE_RAY_CLUSTER = before
    address = ray.nodes()[0]["NodeManagerAddress"]
    if not ip_address(address).is_loopback:
        logger.warning("Ray listens on %s: others on its network may run code here.", address)


def _in_order(
    submit: Callable[[int, Any], Any],
    result: Callable[[Any], Any],
    jobs: Iterable[tuple[int, Any]],
    ahead: int,
) -> Iterator[Any]:
    waiting: deque[Any] = deque()
    for i, item in jobs:
        waiting.append(submit(i, item))
        if len(waiting) > ahead:
            yield result(waiting.popleft())
    while waiting:
        yield result(waiting.popleft())
