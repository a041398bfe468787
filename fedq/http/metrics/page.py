"""The page that Prometheus reads, in its text format (prometheus-client makes it).

In: a scrape. Out: the page, in parts: the thread's other work, and its pace, come in between. On
the aggregated page a figure of queues or channels is the sum of all of them; on the one by object
each has a series.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.core import (
    Metric as Family,
)
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from fedq.http.bounds import HTTP_ROWS_AT_ONCE
from fedq.http.metrics import table
from fedq.http.metrics.samples import Samples
from fedq.http.metrics.table import Kind, Metric, Of

CONTENT_TYPE: Final = CONTENT_TYPE_PLAIN_0_0_4


class _Found(Collector):
    """Families that were made before, where prometheus-client asks for a registry."""

    def __init__(self, families: Iterable[Family]) -> None:
        self._families = families

    def collect(self) -> Iterable[Family]:
        """The families."""
        return self._families


def aggregated(samples: Samples) -> bytes:
    """The page of sums."""
    families = [*_histograms(samples), *_labelled(samples)]
    families += [_family(metric, [((), _sum(samples, metric))]) for metric in table.METRICS]
    return _text(families)


def by_object(samples: Samples) -> Iterator[bytes]:
    """The page with a series for each object, in parts."""
    families = [*_histograms(samples), *_labelled(samples)]
    families += [
        _family(metric, [((), metric.read(samples))])
        for metric in table.METRICS
        if metric.of is Of.NODE
    ]
    yield _text(families)
    for metric in table.METRICS:
        if metric.of is not Of.NODE:
            yield from _series(samples, metric)


def _series(samples: Samples, metric: Metric) -> Iterator[bytes]:
    """The series of one metric; what it is stands above the first ones alone."""
    found = table.objects(samples, metric.of)
    is_first = True
    while part := list(islice(found, HTTP_ROWS_AT_ONCE)):
        made = _text([_family(metric, [(labels, metric.read(each)) for labels, each in part])])
        if not is_first:
            made = b"".join(
                line for line in made.splitlines(keepends=True) if not line.startswith(b"#")
            )
        yield made
        is_first = False


def _sum(samples: Samples, metric: Metric) -> float | None:
    if metric.of is Of.NODE:
        return metric.read(samples)
    if metric.of is Of.QUEUE:
        return metric.read(samples.total)
    return metric.read(samples.channel_total)


def _family(metric: Metric, values: Iterable[tuple[tuple[str, ...], float | None]]) -> Family:
    make = CounterMetricFamily if metric.kind is Kind.COUNTER else GaugeMetricFamily
    family = make(metric.name, metric.help, labels=table.LABELS.get(metric.of, ()))
    for labels, value in values:
        if value is None:
            continue
        # Sums have no labels, whatever they are sums of.
        if labels:
            family.add_metric(labels, value)
        else:
            family.add_sample(metric.name, {}, value)
    return family


def _labelled(samples: Samples) -> list[Family]:
    found: list[Family] = []
    for each in table.LABELLED:
        family = GaugeMetricFamily(each.name, each.help, labels=each.labels)
        for labels, value in each.read(samples):
            family.add_metric(labels, value)
        found.append(family)
    return found


def _histograms(samples: Samples) -> Iterator[Family]:
    for each in table.HISTOGRAMS:
        family, found = HistogramMetricFamily(each.name, each.help), each.read(samples)
        family.add_metric([], list(found.buckets), found.total_s)
        yield family


def _text(families: Iterable[Family]) -> bytes:
    return generate_latest(_Found(families))
