"""Which handlers of RuntimeClasses nodes have, by what their container runtimes report, whatever that is."""

from __future__ import annotations

from typing import Any

import pytest
from builders import H100, MI300X, fleet, gpupool, node, pool_of, runtime_class

from gpujob.catalog.files.load import load_catalog
from gpujob.fleet.devices.group import groups_of
from gpujob.fleet.kubernetes.parse import read_node
from gpujob.fleet.kubernetes.runtime_classes import Handler, RuntimeClass, lacks, read_runtime_class
from gpujob.fleet.sources.incremental import FleetIndex

NVIDIA = runtime_class("nvidia", "nvidia")


def asks(handler: str, name: str) -> Handler:
    return Handler(handler, name, RuntimeClass(handler))


@pytest.mark.parametrize(
    ("told", "handlers"),
    [
        ([{"name": ""}, {"name": "nvidia", "features": {"userNamespaces": True}}], {"", "nvidia"}),
        ([{"features": None}], {""}),
        (None, None),
        ([], None),
    ],
)
def test_a_list_of_names_is_known_and_none_is_unknown(told: Any, handlers: set[str] | None) -> None:
    found = read_node({"metadata": {"name": "n"}, "status": {"runtimeHandlers": told}})
    assert (found.handlers, found.unread) == (handlers, ())


@pytest.mark.parametrize(
    "told",
    ["nvidia", 7, float("nan"), {}, {"name": "nvidia"}, ["nvidia"], [{"name": 1}], [{"name": "x" * 999}], [{}] * 999],
)
def test_what_cannot_be_read_is_unknown_and_said(told: Any) -> None:
    found = read_node({"metadata": {"name": "n"}, "status": {"runtimeHandlers": told}})
    assert found.handlers is None
    assert found.unread == ("status.runtimeHandlers is no list of names; which handlers it has is not known",)


@pytest.mark.parametrize(
    ("handler", "read"), [("nvidia", "nvidia"), (None, ""), (7, ""), (["runc"], ""), ("x" * 999, ""), ("\x1b", "")]
)
def test_a_class_says_its_handler_or_it_is_unknown(handler: Any, read: str) -> None:
    assert read_runtime_class({"handler": handler}) == RuntimeClass(read)


def test_nobody_lacks_what_is_unknown_or_not_asked_for() -> None:
    asked = Handler("nvidia", "nvidia")
    assert lacks(frozenset({"runc"}), asked)
    assert not lacks(frozenset({"nvidia"}), asked)
    assert not lacks(None, asked)
    assert not lacks(frozenset({"runc"}), None)


def test_pods_of_a_pool_ask_for_the_handler_of_their_class() -> None:
    mine = gpupool("mine", {"pool": "x"}, runtimeClassName="fast")
    found = fleet(
        node("h", H100),
        node("x", H100, labels={"pool": "x"}),
        node("a", MI300X),
        NVIDIA,
        runtime_class("fast", "cdi"),
        mine,
    )
    assert pool_of(found, "h").handler == asks("nvidia", "nvidia")
    assert pool_of(found, "x").handler == asks("cdi", "fast")
    assert pool_of(found, "a").handler is None


def test_a_class_whose_handler_is_unknown_and_one_that_is_not_there_ask_for_nothing() -> None:
    mine = gpupool("mine", {"pool": "x"}, runtimeClassName="gone")
    found = fleet(node("h", H100), node("x", H100, labels={"pool": "x"}), runtime_class("nvidia", 7), mine)
    assert pool_of(found, "h").handler is None
    assert pool_of(found, "x").handler is None


def test_a_class_that_comes_changes_or_goes_is_followed_and_pools_without_it_stay_the_same() -> None:
    catalog, index = load_catalog(), FleetIndex(load_catalog())
    for raw in (node("h", H100), node("a", MI300X)):
        index.put_node(read_node(raw), groups_of(read_node(raw), catalog))
    before = index.fleet()
    for handler in ("nvidia", "cdi"):
        after = index.fleet({"nvidia": RuntimeClass(handler)})
        assert pool_of(after, "h").handler == asks(handler, "nvidia")
        assert pool_of(after, "a") is pool_of(before, "a")
    assert index.fleet({"nvidia": RuntimeClass("cdi"), "kata": RuntimeClass("kata")}).pools == after.pools
    assert index.fleet() == before
