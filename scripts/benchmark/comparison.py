"""Compares the service with the constant and the naive server, and two workers with one."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace

import orjson

from benchmark import rounds
from benchmark.client import Request, open_client
from benchmark.data import fill, remove_created
from benchmark.processes import BenchmarkError, Server, all_cores
from benchmark.rounds import Plan, Subject
from benchmark.samples import CONSTANT, NAIVE, ONE_WORKER, SERVICE, TWO_WORKERS, Part, Results
from benchmark.testbed import PATIENT, Testbed
from benchmark.workloads import Workload, comparison_workloads


async def compare_servers(
    testbed: Testbed,
    persons: int,
    names: Collection[str],
    plan: Plan,
    results: Results,
    part: Part = Part.SERVERS,
) -> None:
    """Measure the constant server, the naive one and the service, in turn, on the same core."""
    one_core = all_cores()[:1]
    for name in (NAIVE, SERVICE):
        await fill(testbed.database(name), persons)
    async with AsyncExitStack() as stack:
        commands = ("benchmark.constant",), ("benchmark.naive", testbed.uri, NAIVE)
        constant, naive = [
            await stack.enter_async_context(testbed.reference(one_core, *command))
            for command in commands
        ]
        service = await stack.enter_async_context(testbed.service(SERVICE, one_core, *PATIENT))
        workloads = await _workloads(testbed, service, persons, names)
        bodies = await _response_bodies(naive, service, workloads)

        async def set_body(workload: Workload) -> None:
            async with open_client(constant) as client:
                await client.send(Request("PUT", "/", bodies[workload.name]))

        subjects = [
            Subject(CONSTANT, constant, workloads, before=set_body),
            _restored(Subject(NAIVE, naive, workloads), testbed, NAIVE, persons),
            _restored(Subject(SERVICE, service, workloads), testbed, SERVICE, persons),
        ]
        await rounds.measure(part, subjects, plan, results)


async def compare_workers(
    testbed: Testbed, persons: int, names: Collection[str], plan: Plan, results: Results
) -> None:
    """Measure the service with one worker and with two, in turn, on all cores."""
    database = "workers"
    await fill(testbed.database(database), persons)
    async with AsyncExitStack() as stack:
        servers = [
            await stack.enter_async_context(
                testbed.service(database, all_cores(), "--workers", count)
            )
            for count in ("1", "2")
        ]
        workloads = await _workloads(testbed, servers[0], persons, names)
        subjects = [
            _restored(Subject(name, server, workloads), testbed, database, persons)
            for name, server in zip((ONE_WORKER, TWO_WORKERS), servers, strict=True)
        ]
        await rounds.measure(Part.WORKERS, subjects, replace(plan, cores=all_cores()), results)


async def _workloads(
    testbed: Testbed, service: Server, persons: int, names: Collection[str]
) -> dict[str, Workload]:
    async with open_client(service) as client:
        workloads = await comparison_workloads(client, persons, testbed.new_directory())
    return {name: workload for name, workload in workloads.items() if name in names}


async def _response_bodies(
    naive: Server, service: Server, workloads: Mapping[str, Workload]
) -> dict[str, bytes]:
    """Return the service's response to a sample request of each workload.

    Raises BenchmarkError if the naive server responds with another document.
    """
    bodies = {}
    async with open_client(naive) as naive_client, open_client(service) as client:
        for name, workload in workloads.items():
            bodies[name] = await client.send(workload.sample)
            other = await naive_client.send(workload.sample)
            if _document(other, naive) != _document(bodies[name], service):
                raise BenchmarkError(f"{workload.title}: the naive server's response differs")
    return bodies


def _document(body: bytes, server: Server) -> object:
    """Return the document without the server's own URL."""
    return orjson.loads(body.replace(server.url.encode(), b""))


def _restored(subject: Subject, testbed: Testbed, database: str, persons: int) -> Subject:
    """Add the deletion of created persons after each measurement, so that lists keep their size."""

    async def after(workload: Workload) -> None:
        if workload.sample.method == "POST":
            await remove_created(testbed.database(database), persons)

    return replace(subject, after=after)
