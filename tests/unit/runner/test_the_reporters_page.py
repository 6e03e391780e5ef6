"""Prometheus text out of figures that may be anything; the list of metrics is the one in docs/telemetry.md."""

from __future__ import annotations

import math
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from gpujob.cluster.metrics.exposition import read_report
from gpujob_runner.report.rank import Rank
from gpujob_runner.report.readings import torch_state
from gpujob_runner.report.serving.exposition import METRICS, POD_METRICS, exposed
from gpujob_runner.report.settings import Settings

DOCS = Path(__file__).parents[3] / "docs" / "telemetry.md"


def told(rank: Any = 0, **figures: Any) -> dict[str, Any]:
    return {"rank": rank, "world_size": 16, "figures": figures}


def samples(page: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Every sample of a page, read by Prometheus' own client."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }


def test_the_docs_name_exactly_what_is_exported() -> None:
    rows = dict(re.findall(r"^\| `gpujob_(\w+)` \| (\w+) \|", DOCS.read_text(), re.MULTILINE))
    assert rows == {name: kind for name, kind, _ in (*POD_METRICS, *METRICS)}


def test_counters_and_only_they_end_in_total() -> None:
    assert all((kind == "counter") == name.endswith("_total") for name, kind, _ in (*POD_METRICS, *METRICS))


def test_a_page() -> None:
    page = exposed(
        [
            told(1, steps_total=3),
            told(
                0,
                steps_total=4,
                step_duration_seconds={"sum": 2.5, "count": 4.0, "0.5": 0.5},
                devices={"0": {"peak_bytes": 2.0**33}},
                training_metric={'lo"ss\\': math.nan},
                process_info={"torch": "2.15", "backend": "cuda"},
                reporter_failures_total={"memory": 1},
            ),
        ]
    )
    found = samples(page)
    assert found[("gpujob_world_size", ())] == 16
    assert found[("gpujob_ranks_reporting", ())] == 2
    assert found[("gpujob_steps_total", (("rank", "0"),))] == 4
    assert found[("gpujob_steps_total", (("rank", "1"),))] == 3
    assert found[("gpujob_step_duration_seconds", (("quantile", "0.5"), ("rank", "0")))] == 0.5
    assert found[("gpujob_step_duration_seconds_sum", (("rank", "0"),))] == 2.5
    assert found[("gpujob_device_memory_peak_bytes", (("device", "0"), ("rank", "0")))] == 2**33
    assert math.isnan(found[("gpujob_training_metric", (("name", 'lo"ss\\'), ("rank", "0")))])
    assert found[("gpujob_process_info", (("backend", "cuda"), ("rank", "0"), ("torch", "2.15")))] == 1
    assert found[("gpujob_reporter_failures_total", (("part", "memory"), ("rank", "0")))] == 1
    assert page.index('steps_total{rank="0"}') < page.index('steps_total{rank="1"}')


def test_every_figure_of_a_rank_is_on_the_page() -> None:
    rank = Rank(Settings(0, "", "", 1, 1), 1.0)
    rank.step()
    rank.step()
    rank.progress, rank.checkpoint, rank.slowest_save = (0.5, 2.0, 3.0), (4.0, 5.0), 6.0
    rank.name_metric("loss", 1.0)
    rank.phases.begin("Saving")
    memory = {name.removeprefix("device_memory_"): 1.0 for name, _, _ in METRICS if name.startswith("device_memory_")}
    figures = rank.figures() | {
        "devices": {"0": memory},
        "on_device": 1.0,
        "device_faults": [["Xid-79", "GPU-1", 1.0]],
        "process_info": {"torch": "2"},
        "reporter_failures_total": {"x": 1},
    }
    page = exposed([{"rank": 0, "world_size": 1, "figures": figures}])
    assert [name for name, _, _ in METRICS if f"# TYPE gpujob_{name} " not in page] == []


@pytest.mark.parametrize(
    "odd", [None, 7, "x", {}, [7], [["Xid-79"]], [["Xid-79", "GPU-1", "soon"]], [["a", "b", None]]]
)
def test_faults_of_devices_that_cannot_be_read_are_left_out(odd: Any) -> None:
    assert "device_fault" not in exposed([told(0, device_faults=odd)])


def test_what_drivers_report_is_what_the_operator_reads() -> None:
    page = exposed(
        [told(3, device_faults=[["Xid-79", "GPU-9c1d", 1767225600.5], ["RAS-umc", "0000:c1:00.0", 1767225601]])]
    )
    assert read_report(page.encode()).faults == (
        ("RAS-umc", "0000:c1:00.0", 1767225601.0), ("Xid-79", "GPU-9c1d", 1767225600.5),
    )  # fmt: skip


def test_the_page_says_whose_it_is_where_the_pod_does() -> None:
    found = samples(exposed([told(0)], 'u"1', "2"))
    assert found[("gpujob_attempt_info", (("attempt", "2"), ("job_uid", 'u"1')))] == 1
    for job_uid, attempt in (("", "2"), ("u", "")):
        assert "attempt_info" not in exposed([told(0)], job_uid, attempt)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, "1", None, [], {}, 10**400, {"0": "x"}, True])
def test_anything_may_stand_in_another_process_file(value: Any) -> None:
    figures = dict.fromkeys([name for name, _, _ in METRICS] + ["devices"], value)
    page = exposed(
        [told(0, steps_total=7), {"rank": value, "world_size": value, "figures": figures}, {"figures": value}]
    )
    assert samples(page)[("gpujob_up", ())] == 1


def test_of_two_processes_of_one_rank_the_one_that_stepped_last_is_told() -> None:
    page = exposed(
        [told(0, steps_total=1, last_step_timestamp_seconds=9), told(0, steps_total=2, last_step_timestamp_seconds=5)]
    )
    assert samples(page)[("gpujob_steps_total", (("rank", "0"),))] == 1
    assert samples(page)[("gpujob_ranks_reporting", ())] == 1


def test_memory_is_that_of_torchs_allocator_and_its_peak_outlives_a_reset(monkeypatch: pytest.MonkeyPatch) -> None:
    stats = {
        "allocated_bytes": {"all": {"current": 5, "peak": 9}},
        "reserved_bytes": {"all": {"current": 16, "peak": 32}},
    }
    cuda = SimpleNamespace(
        is_initialized=lambda: True,
        device_count=lambda: 2,
        memory_stats_as_nested_dict=lambda device: stats if device else {},
        mem_get_info=lambda device: (60, 100),
    )
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    devices = torch_state.Devices()
    first = devices.figures()
    stats["allocated_bytes"]["all"]["peak"] = 6
    assert first == devices.figures()
    assert first == {
        1: {
            "allocated_bytes": 5,
            "reserved_bytes": 16,
            "peak_bytes": 9,
            "reserved_peak_bytes": 32,
            "used_bytes": 40,
            "total_bytes": 100,
        }
    }
