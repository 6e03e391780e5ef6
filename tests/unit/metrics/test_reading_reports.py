"""What a job's port serves is read strictly: right figures for the whole job, or one sentence why not."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpujob.cluster.metrics.exposition import (
    MOST,
    MOST_BYTES,
    MOST_FAULTS,
    MOST_LINES,
    MOST_SAMPLES,
    Report,
    UnreadableReport,
    read_report,
)
from gpujob_runner.report.rank import LONGEST_NAME, MOST_NAMES, Rank
from gpujob_runner.report.serving.exposition import exposed
from gpujob_runner.report.serving.shared import MOST_PROCESSES
from gpujob_runner.report.settings import Settings

TWO_OF_FOUR = b"""# HELP gpujob_up 1
# TYPE gpujob_up gauge
gpujob_up 1
gpujob_world_size 4
gpujob_ranks_reporting 2
gpujob_steps_total{rank="0"} 120
gpujob_steps_total{rank="1"} 119
gpujob_samples_total{rank="0"} 3840
gpujob_samples_total{rank="1"} 3808
gpujob_tokens_total{rank="0"} 1966080
gpujob_tokens_total{rank="1"} 1949696
gpujob_training_metric{rank="0",name="loss {}"} NaN
gpujob_progress_ratio{rank="0"} 0.42
gpujob_remaining_seconds{rank="0"} 1800
gpujob_checkpoint_step{rank="0"} 100
gpujob_checkpoint_timestamp_seconds{rank="0"} 1767225600.5
gpujob_checkpoint_save_seconds{rank="0"} 12.5
gpujob_checkpoint_save_seconds{rank="1"} 13.25
gpujob_unsaved_steps{rank="0"} 20
gpujob_last_step_timestamp_seconds{rank="0"} 1767225700
gpujob_on_device{rank="0"} 1
gpujob_on_device{rank="1"} 0
other_metric nonsense
"""


def test_figures_of_ranks_become_those_of_the_job() -> None:
    assert read_report(TWO_OF_FOUR) == Report(
        counters={"steps": 120.0, "samples": 15296.0, "tokens": 7831552.0},
        progress=0.42,
        remaining=1800.0,
        checkpoint=100,
        checkpoint_at=1767225600.5,
        save_seconds=13.25,
        unsaved=20,
        last_step_at=1767225700.0,
        on_device=False,
    )


def whose(labels: str) -> Report:
    return read_report(f"gpujob_up 1\ngpujob_attempt_info{{{labels}}} 1\n".encode())


def test_a_report_says_whose_it_is() -> None:
    told = whose('job_uid="6f1c1f0e-52a4",attempt="2"')
    assert told.whose == ("6f1c1f0e-52a4", 2)
    assert whose('attempt="2",job_uid="6f1c1f0e-52a4"') == told
    for must_say in (True, False):
        assert told.is_of("6f1c1f0e-52a4", 2, must_say=must_say)
        assert not told.is_of("6f1c1f0e-52a4", 1, must_say=must_say)
        assert not told.is_of("6f1c1f0e", 2, must_say=must_say)


@pytest.mark.parametrize(
    ("lines", "faults"),
    [('{rank="0",device="GPU-1",fault="Xid-79"} 1767225600', (("Xid-79", "GPU-1", 1767225600.0),)),
     # Of another writer, or unreadable: no fault, and a report all the same.
     ('{rank="0",device="GPU-1"} 1', ()), ('{rank="0",fault="Xid-79"} 1', ()), ('{device="",fault="Xid-79"} 1', ()),
     ('{device="GPU 1",fault="Xid-79"} 1', ()), ('{device="GPU-1",fault="Xid-79"} 1e17', ())],
)  # fmt: skip
def test_faults_of_devices(lines: str, faults: Any) -> None:
    assert read_report(f"gpujob_up 1\ngpujob_device_fault_timestamp_seconds{lines}\n".encode()).faults == faults


def test_no_more_faults_are_read_than_the_bound() -> None:
    many = "".join(f'gpujob_device_fault_timestamp_seconds{{device="d{n}",fault="Xid-79"}} 1\n' for n in range(99))
    assert len(read_report(f"gpujob_up 1\n{many}".encode()).faults) == MOST_FAULTS


def test_a_report_that_does_not_say_it_is_of_the_pod_that_was_asked_where_no_other_could_answer() -> None:
    told = read_report(b"gpujob_up 1\n")
    assert told.is_of("u", 1, must_say=False)
    assert not told.is_of("u", 1, must_say=True)


@pytest.mark.parametrize(
    "labels",
    ['job_uid="u"', 'attempt="1"', 'job_uid="u",attempt="x"', 'job_uid="u",attempt="-1"', 'job_uid="a b",attempt="1"',
     'job_uid="u",attempt="1"} 1\ngpujob_attempt_info{job_uid="u",attempt="2"'],
)  # fmt: skip
def test_a_report_that_says_badly_whose_it_is_is_none(labels: str) -> None:
    with pytest.raises(UnreadableReport, match="its gpujob_attempt_info does not name one job and attempt"):
        whose(labels)


def test_the_longest_page_of_a_reporter_is_read() -> None:
    """As many processes as a pod's reporter exports, each with as many and as long names as it keeps, in any script."""
    rank = Rank(Settings(0, "", "", None, None), 1767225600.0)
    for number in range(2 * MOST_NAMES):
        rank.step()
        rank.name_metric(f"eval_pr\u00e9cision_{number:02}_".ljust(LONGEST_NAME, "x"), -1.2345678901e-05)
    rank.progress, rank.checkpoint = (0.123456789, 12345.678, 1767225600.123), (123456.0, 1767225600.123)
    rank.samples_from = rank.tokens_from = "dataloader"
    memory = ("allocated", "reserved", "peak", "reserved_peak", "used", "total")
    figures = {
        **rank.figures(),
        "on_device": 1.0,
        "devices": {"0": {f"{what}_bytes": 206141652992.0 for what in memory}},
        "process_info": {"torch": "2.9.1+rocm7.0.2", "backend": "rocm", "device": "AMD Instinct MI300X OAM"},
    }
    page = exposed([{"rank": each, "world_size": 128, "figures": figures} for each in range(MOST_PROCESSES)], "u", "1")
    report = read_report(page.encode())
    assert (report.counters["steps"], report.whose) == (2 * MOST_NAMES, ("u", 1))


def test_metrics_of_other_names_are_skipped_however_alike() -> None:
    others = b"gpujob_steps_total2 9\ngpujob_steps_total:rate5m x\ngpujob_steps_total_X{} 9\n"
    assert read_report(b"gpujob_up 1\n" + others + b"gpujob_steps_total 4\n").counters == {"steps": 4.0}


def test_what_is_not_said_is_not_known() -> None:
    assert read_report(b"gpujob_up 1\n") == Report(counters={})


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "it has no gpujob_up"),
        (b"<html>gpujob_up 1</html>", "it has no gpujob_up"),
        (b"gpujob_up 1\n" * 50000, f"more than {MOST_BYTES} bytes"),
        (b"gpujob_up 1" + b"\n" * (MOST_LINES + 1), f"more than {MOST_LINES} lines"),
        (b"".join(b'gpujob_up{n="%d"} 1\n' % n for n in range(MOST_SAMPLES + 1)), f"more than {MOST_SAMPLES} samples"),
        (b"gpujob_up 1\ngpujob_steps_total\xff 3", "not UTF-8 text"),
        (b"gpujob_up 1\ngpujob_steps_total", "its gpujob_steps_total is no Prometheus sample"),
        (b'gpujob_up 1\ngpujob_steps_total{rank="0" 3', "its gpujob_steps_total is no Prometheus sample"),
        (b"gpujob_up 1\ngpujob_steps_total many", "its gpujob_steps_total is no number"),
        (b"gpujob_up 1\ngpujob_steps_total NaN", "its gpujob_steps_total is below 0 or endless"),
        (b"gpujob_up 1\ngpujob_steps_total -1", "its gpujob_steps_total is below 0 or endless"),
        (b"gpujob_up 1\ngpujob_tokens_total 1e400", "its gpujob_tokens_total is below 0 or endless"),
        (b"gpujob_up 1\ngpujob_progress_ratio 1.5", "its gpujob_progress_ratio is above 1"),
        (b"gpujob_up 1\ngpujob_checkpoint_timestamp_seconds 1e15", "above 2.53402e+11"),
        (b"gpujob_up 1\ngpujob_checkpoint_save_seconds 86401", "above 86400"),
        (
            b'gpujob_up 1\ngpujob_tokens_total{rank="0"} 5\ngpujob_tokens_total{rank="0"} 5',
            "its gpujob_tokens_total is there twice",
        ),
        (b"gpujob_up 1\ngpujob_up 1", "its gpujob_up is there twice"),
        (b'gpujob_up 1\ngpujob_steps_total{a="x\n"} 5', "its gpujob_steps_total is no Prometheus sample"),
        (b"gpujob_up 1\ngpujob_world_size 1e9\ngpujob_tokens_total 1e17", "its counters are above 1e+18"),
    ],
)
def test_half_a_report_is_none(body: bytes, why: str) -> None:
    with pytest.raises(UnreadableReport, match=why.replace("+", r"\+")):
        read_report(body)


@given(st.binary(max_size=400), st.sampled_from([b"", b"gpujob_up 1\n", b"gpujob_up 1\ngpujob_steps_total "]))
def test_no_reply_raises_anything_else(noise: bytes, before: bytes) -> None:
    try:
        report = read_report(before + noise)
    except UnreadableReport as error:
        assert "\n" not in str(error)
        return
    assert all(0 <= value <= MOST for value in report.counters.values())
