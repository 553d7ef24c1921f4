"""Snapshots: the samples of a process at one moment, and their sums over several processes."""

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from registry.metrics.families import FAMILIES, Gauge, Samples

MetricsSnapshot: TypeAlias = Mapping[str, Samples]
"""Samples by the name of their family."""


def take() -> MetricsSnapshot:
    """Return the samples of this process."""
    return {family.name: family.read() for family in FAMILIES}


def total(snapshots: Iterable[MetricsSnapshot]) -> MetricsSnapshot:
    """Return the sums of all samples, by family and labels."""
    sums: dict[str, Samples] = {}
    for snapshot in snapshots:
        for name, samples in snapshot.items():
            summed = sums.setdefault(name, {})
            for values, sample in samples.items():
                other = summed.get(values)
                summed[values] = (
                    sample if other is None else [a + b for a, b in zip(sample, other, strict=True)]
                )
    return sums


def without_gauges(snapshot: MetricsSnapshot) -> MetricsSnapshot:
    """Return what remains of the snapshot of a process after the process has ended."""
    gauges = {family.name for family in FAMILIES if isinstance(family, Gauge)}
    return {name: samples for name, samples in snapshot.items() if name not in gauges}
