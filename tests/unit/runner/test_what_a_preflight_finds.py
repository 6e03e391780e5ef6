"""Facts against what was promised: each finding alone, the order of causes, and a message that always fits."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpujob_runner.preflight.expected import Expected, read_expected
from gpujob_runner.preflight.folders import unwritable
from gpujob_runner.preflight.nodes import Nodes, open_nodes
from gpujob_runner.preflight.probing import Device, Seen
from gpujob_runner.preflight.refusal import Refusal
from gpujob_runner.preflight.result import LIMIT, Result, message_of
from gpujob_runner.preflight.verdict import of_folders, of_nodes, of_torch

GI = 1 << 30
EXPECTED = Expected(backend="ROCm", vendor="AMD", gpus=2, memory=100 * GI)
CARDS = Nodes(cards=("/dev/dri/renderD128", "/dev/dri/renderD129"))
GOOD = Seen(
    python="3.12.3", torch="2.9.1+rocm7.2", backend="ROCm", number="7.2", import_seconds=3.0, count=2, stage="ended",
    devices=[Device(i, "AMD Instinct MI300X", 190 * GI, 191 * GI, 0.2, True) for i in range(2)],
)  # fmt: skip
DENIED = Nodes(CARDS.cards, denied=(Refusal("/dev/kfd", 0, 109, 0o660, "EACCES"),))


def reasons(seen: Seen, expected: Expected = EXPECTED, nodes: Nodes = CARDS, **environment: str) -> list[str]:
    return [finding["reason"] for finding in of_torch(expected, seen, nodes, environment)]


def device(index: int = 1, **more: Any) -> list[Device]:
    return [GOOD.devices[0], replace(GOOD.devices[1], index=index, **more)]


def test_nothing_is_found_where_all_is_well() -> None:
    assert reasons(GOOD) == []
    assert reasons(GOOD, nodes=DENIED) == [], "torch's own answer counts, not a node that is not ours"


@pytest.mark.parametrize(
    ("reason", "seen"),
    [
        (
            "ImageBackendMismatch",
            replace(GOOD, torch="2.11.0+cu130", backend="CUDA", number="13.0", import_seconds=None),
        ),
        ("ImageBackendMismatch", replace(GOOD, torch="2.11.0+cpu", backend="CPU", number="", import_seconds=None)),
        ("ImageBroken", replace(GOOD, broken="ImportError: libamdhip64.so.7: cannot open shared object file")),
        ("ImageBroken", replace(GOOD, import_seconds=None, count=None, devices=[], died=-11)),
        ("PreflightTimedOut", replace(GOOD, import_seconds=None, count=None, devices=[], hung=True)),
        ("DeviceUnusable", replace(GOOD, count=None, devices=[], hung=True)),
        ("DeviceUnusable", replace(GOOD, count=0, devices=[], error="RuntimeError: No HIP GPUs are available")),
        ("DeviceUnusable", replace(GOOD, devices=device(product=False))),
        ("DeviceUnusable", replace(GOOD, devices=device(error="AcceleratorError: HIP error: invalid device function"))),
        ("DeviceUnusable", replace(GOOD, devices=GOOD.devices[:1], hung=True)),
        ("DeviceUnusable", replace(GOOD, devices=GOOD.devices[:1], died=-6)),
        ("DeviceCountMismatch", replace(GOOD, count=1, devices=GOOD.devices[:1])),
        ("DeviceCountMismatch", replace(GOOD, count=8)),
        ("MemBelowRequest", replace(GOOD, devices=device(free=12 * GI))),
        ("MemBelowRequest", replace(GOOD, devices=device(free=63 * GI, total=64 * GI))),
    ],
)
def test_one_thing_that_is_wrong_is_one_finding(reason: str, seen: Seen) -> None:
    assert reasons(seen) == [reason]


def test_the_cause_is_told_and_not_what_follows_from_it() -> None:
    none = replace(GOOD, count=0, devices=[], error="no device")
    assert reasons(none, nodes=DENIED) == ["DevicePermission"]
    assert reasons(none, nodes=Nodes()) == ["DeviceCountMismatch"]
    assert reasons(none, HIP_VISIBLE_DEVICES="") == ["DeviceCountMismatch"]
    (finding,) = of_torch(EXPECTED, none, CARDS, {"HIP_VISIBLE_DEVICES": "7"})
    assert finding["variable"] == "HIP_VISIBLE_DEVICES"


def test_a_context_of_the_probe_is_not_held_against_a_device() -> None:
    tight = replace(EXPECTED, memory=191 * GI)
    assert reasons(GOOD, tight) == []
    assert reasons(replace(GOOD, devices=device(free=189 * GI)), tight) == ["MemBelowRequest"]


def test_slices_and_shared_places_are_not_counted() -> None:
    one = replace(GOOD, count=1, devices=GOOD.devices[:1])
    assert reasons(one, replace(EXPECTED, exact=False)) == []
    (finding,) = of_torch(replace(EXPECTED, exact=False, shared=True, memory=191 * GI), replace(
        one, devices=[replace(GOOD.devices[0], free=3 * GI)]
    ), CARDS, {})  # fmt: skip
    assert (finding["reason"], finding["shared"]) == ("MemBelowRequest", True)


def test_without_torch_the_device_nodes_alone_are_judged() -> None:
    absent = Seen(python="3.12.3", absent=True, stage="absent")
    assert reasons(absent) == []
    assert reasons(absent, nodes=DENIED) == ["DevicePermission"]
    assert reasons(absent, nodes=Nodes(CARDS.cards[:1])) == ["DeviceCountMismatch"]
    assert of_nodes(replace(EXPECTED, gpus=0), Nodes()) == []


def test_nodes_of_a_container_are_opened(tmp_path: Path) -> None:
    (tmp_path / "dri").mkdir()
    for name in ("kfd", "dri/renderD128", "dri/card0", "nvidia0", "nvidiactl", "null"):
        (tmp_path / name).touch()
    amd, nvidia = open_nodes("AMD", str(tmp_path)), open_nodes("NVIDIA", str(tmp_path))
    assert amd == Nodes(cards=(str(tmp_path / "dri/renderD128"),))
    assert nvidia == Nodes(cards=(str(tmp_path / "nvidia0"),))
    (tmp_path / "kfd").unlink()
    assert open_nodes("AMD", str(tmp_path)).lacking == (str(tmp_path / "kfd"),)
    assert open_nodes("", str(tmp_path)) == Nodes()
    assert open_nodes("AMD", str(tmp_path / "nothing")).cards == ()


@pytest.fixture
def not_root() -> Iterator[None]:
    """Root may open everything; a process of it takes another user meanwhile."""
    if os.getuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_a_node_that_is_closed_tells_whose_it_is(not_root: None) -> None:
    # Folders of pytest are for one user alone; this one is of the user that the test runs as.
    with TemporaryDirectory() as folder:
        node = Path(folder, "kfd")
        node.touch(mode=0)
        (closed,) = open_nodes("AMD", folder).denied
        facts = node.stat()
        assert closed == Refusal(str(node), facts.st_uid, facts.st_gid, 0, "EACCES")


def test_folders_take_a_file_and_keep_none(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    good, below, bad = str(tmp_path), str(tmp_path / "not/there/yet"), str(tmp_path / "file")
    (found,) = unwritable([good, below, bad, bad])
    assert (found.path, found.error) == (bad, "ENOTDIR")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file"]
    assert stat.S_ISREG((tmp_path / "file").stat().st_mode)


def test_shared_memory_may_lack_no_more_than_what_is_rounded_off() -> None:
    expected = Expected(shared_memory=64 * GI)
    assert of_folders(expected, 64 * GI - 4096, []) == []
    (finding,) = of_folders(expected, 64 << 20, [])
    assert finding == {"reason": "SharedMemoryTooSmall", "size": 64 << 20, "wanted": 64 * GI}
    assert of_folders(Expected(), 0, []) == []
    assert of_folders(expected, None, []) == []


junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=300),
    lambda inner: st.lists(inner, max_size=30) | st.dictionaries(st.text(max_size=9), inner, max_size=9),
    max_leaves=40,
)


@given(text=st.text() | junk.map(json.dumps) | st.dictionaries(
    st.sampled_from(["backend", "gpus", "memory", "folders", "exact"]), junk
).map(json.dumps))  # fmt: skip
def test_any_promise_is_read(text: str) -> None:
    expected = read_expected({"GPUJOB_PREFLIGHT": text})
    assert expected.memory is None or expected.memory > 0
    assert read_expected({}) == Expected()


@settings(suppress_health_check=[HealthCheck.data_too_large])  # What is found may be large: that is the point.
@given(facts=st.dictionaries(st.text(max_size=9), junk, max_size=9), findings=st.lists(
    st.dictionaries(st.text(max_size=9), junk, max_size=6).map(lambda f: {**f, "reason": "MemBelowRequest"}), min_size=1, max_size=9
))  # fmt: skip
def test_a_message_fits_whatever_was_found(facts: dict[str, Any], findings: list[dict[str, Any]]) -> None:
    text = message_of(Result(findings, facts))
    assert len(text.encode()) <= LIMIT
    assert json.loads(text)["findings"][0]["reason"] == "MemBelowRequest"
