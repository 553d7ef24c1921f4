"""Compares the service with other servers, two workers with one, and many connections with few."""

from collections.abc import Collection
from contextlib import AsyncExitStack
from dataclasses import replace

import orjson

from benchmark import rounds
from benchmark.client import Request, open_client
from benchmark.data import add_deletable, fill, remove_added
from benchmark.goals import BUSY, OVERLOAD
from benchmark.processes import BenchmarkError, Server, all_cores
from benchmark.rounds import Plan, Subject
from benchmark.samples import CONSTANT, NAIVE, ONE_WORKER, SERVICE, TWO_WORKERS, Part, Results
from benchmark.testbed import Testbed
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
        service = await stack.enter_async_context(
            testbed.service(SERVICE, one_core, is_patient=True)
        )
        workloads = await _workloads(testbed, service, persons, names)
        compared = [
            _with_data(Subject(name, server, workloads), testbed, name, persons)
            for name, server in ((NAIVE, naive), (SERVICE, service))
        ]
        bodies = await _response_bodies(*compared)

        async def set_body(workload: Workload) -> None:
            async with open_client(constant) as client:
                await client.send(Request("PUT", "/", bodies[workload.name]))

        subjects = [Subject(CONSTANT, constant, workloads, before=set_body), *compared]
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
            _with_data(Subject(name, server, workloads), testbed, database, persons)
            for name, server in zip((ONE_WORKER, TWO_WORKERS), servers, strict=True)
        ]
        await rounds.measure(Part.WORKERS, subjects, replace(plan, cores=all_cores()), results)


async def measure_overload(testbed: Testbed, persons: int, plan: Plan, results: Results) -> None:
    """Measure the service, on one core, on so many connections that it is busy, and on more."""
    database = "overload"
    await fill(testbed.database(database), persons)
    async with testbed.service(database, all_cores()[:1]) as server:
        workloads = await _workloads(testbed, server, persons, ("read", "update"))
        # It takes a part of a second until all connections are open.
        longer = replace(plan, seconds=5 * plan.seconds, connections=(BUSY, OVERLOAD))
        subject = Subject(SERVICE, server, workloads)
        await rounds.measure(Part.OVERLOAD, [subject], longer, results)


async def _workloads(
    testbed: Testbed, service: Server, persons: int, names: Collection[str]
) -> dict[str, Workload]:
    async with open_client(service) as client:
        workloads = await comparison_workloads(client, persons, testbed.new_directory())
    return {name: workload for name, workload in workloads.items() if name in names}


async def _response_bodies(naive: Subject, service: Subject) -> dict[str, bytes]:
    """Return the service's response to a sample request of each workload.

    Raises BenchmarkError if the naive server responds with another document.
    """
    bodies = {}
    for name, workload in service.workloads.items():
        other, bodies[name] = [await _response_body(one, workload) for one in (naive, service)]
        if _document(other, naive.server) != _document(bodies[name], service.server):
            raise BenchmarkError(f"{workload.title}: the naive server's response differs")
    return bodies


async def _response_body(subject: Subject, workload: Workload) -> bytes:
    await subject.before(workload)
    async with open_client(subject.server) as client:
        body = await client.send(workload.samples[0])
    await subject.after(workload)
    return body


def _document(body: bytes, server: Server) -> object:
    """Return the document, if there is one, without the server's own URL."""
    return orjson.loads(body.replace(server.url.encode(), b"") or b"null")


def _with_data(subject: Subject, testbed: Testbed, database: str, persons: int) -> Subject:
    """Add what deletions delete before each measurement, and remove what was added after it.

    So pages and lists keep their size.
    """

    async def before(workload: Workload) -> None:
        if workload.samples[0].method == "DELETE":
            await add_deletable(testbed.database(database), persons)
            await subject.server.wait_until_idle()

    async def after(workload: Workload) -> None:
        if workload.samples[0].method in {"POST", "DELETE"}:
            await remove_added(testbed.database(database), persons)

    return replace(subject, before=before, after=after)
