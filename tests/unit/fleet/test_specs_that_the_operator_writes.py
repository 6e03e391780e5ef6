"""A GPUPool of a cluster file that the operator wrote: what an admin adds to its spec is not read, and that is said."""

from __future__ import annotations

from typing import Any

import pytest
from builders import H100, Object, fleet, gpupool, node

from gpujob.fleet.sources.cluster_file import read_cluster
from gpujob.fleet.sources.ignored_values import WRITTEN
from gpujob.status.pools import manifest
from gpujob.values.vocabulary import Label

NODE = node("n", H100, price="3")
(POOL,) = fleet(NODE).pools
WHAT_TO_DO = (
    "the operator wrote this GPUPool from its nodes and does not read its spec; set spec.nodeSelector and remove the label "
    "gpujob.dev/discovered to make it yours, or create a GPUPool of your own"
)


def written(**spec: Any) -> Object:
    """With a selector of an admin's; the one that the operator writes is refused together with any other field."""
    made = manifest(POOL)
    return {**made, "spec": {**made["spec"], "nodeSelector": {"matchLabels": {"pool": "x"}}, **spec}}


def unread(*objects: Object) -> list[str]:
    return [line for line in read_cluster(list(objects)).unread if line.startswith("GPUPool")]


@pytest.mark.parametrize(
    ("spec", "fields"),
    [
        ({"price": {"perGPUHour": "1.00"}}, "spec.price"),
        ({"tolerations": [{"key": "team", "operator": "Exists"}]}, "spec.tolerations"),
        ({"supplementalGroups": [44], "runtimeClassName": "nvidia"}, "spec.runtimeClassName, spec.supplementalGroups"),
        ({"provision": {"maxNodes": 2}}, "spec.provision"),
    ],
)
def test_what_was_added_is_named(spec: dict[str, Any], fields: str) -> None:
    assert unread(NODE, written(**spec)) == [f"GPUPool {POOL.name}: {fields}: {WHAT_TO_DO}"]


def test_what_the_operator_wrote_and_what_an_admin_owns_is_no_change() -> None:
    assert set(manifest(POOL)["spec"]) <= WRITTEN
    assert unread(NODE, written()) == []
    assert unread(NODE, gpupool("mine", {"pool": "x"}, price={"perGPUHour": "1.00"})) == []
    added = written(price={"perGPUHour": "1.00"})
    del added["metadata"]["labels"][Label.DISCOVERED]
    assert unread(NODE, added) == []
