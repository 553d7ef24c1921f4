"""The metric families: how they are counted, added up, written and documented."""

import re
from pathlib import Path

from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from registry import metrics
from registry.http.views.site import registry_of
from registry.metrics import FAMILIES, Counter, Histogram, MetricsSnapshot

DOCUMENTATION = (Path(__file__).parents[1] / "docs" / "observability.md").read_text(
    encoding="utf-8"
)


def test_the_documentation_lists_every_metric_with_its_type_labels_and_meaning() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| (.*) ?\| (.*) \|$", DOCUMENTATION, re.MULTILINE)
    listed = [(name, kind, re.findall(r"\w+", labels), text) for name, kind, labels, text in rows]
    assert listed == [
        (
            family.name,
            type(family).__name__.lower(),
            list(family.labels),
            (family.help_text[0].lower() + family.help_text[1:]).rstrip("."),
        )
        for family in FAMILIES
    ]


def test_every_metric_is_written_in_the_format_of_prometheus() -> None:
    text = generate_latest(registry_of(metrics.take())).decode()
    written = {family.name for family in text_string_to_metric_families(text)}
    assert written == {family.name.removesuffix("_total") for family in FAMILIES}


def test_a_histogram_counts_a_value_in_the_buckets_that_include_it() -> None:
    histogram = Histogram("h", "Values.", bounds=(1.0, 2.0))
    sample = histogram.sample()
    for value in (0.5, 1.0, 1.5, 9.0):
        histogram.observe(sample, value)
    assert histogram.read() == {(): [2.0, 1.0, 1.0, 12.0]}


def test_the_total_of_snapshots_has_the_sum_of_each_sample() -> None:
    one: MetricsSnapshot = {"a": {("x",): [1.0, 2.0], ("y",): [5.0]}, "b": {(): [1.0]}}
    other: MetricsSnapshot = {"a": {("x",): [10.0, 20.0], ("z",): [7.0]}}
    assert metrics.total([one, other, {}]) == {
        "a": {("x",): [11.0, 22.0], ("y",): [5.0], ("z",): [7.0]},
        "b": {(): [1.0]},
    }
    assert one["a"][("x",)] == [1.0, 2.0]


def test_a_process_that_has_ended_leaves_all_metrics_but_its_gauges() -> None:
    kept = metrics.without_gauges(metrics.take())
    assert kept.keys() == {one.name for one in FAMILIES if isinstance(one, Counter | Histogram)}
