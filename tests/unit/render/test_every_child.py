"""What holds for whatever job and choice: no right is widened, no vendor is mixed, every name and quota is in order."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from pod_security import violations
from samples import H100, MI300X, Sample, choice_of, job_of

from gpujob.fleet.kubernetes.objects import Resources
from gpujob.values.quantity import GI, MI
from gpujob.values.vocabulary import CapacityType, Vendor

DNS_LABEL = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?")

words = st.text("abcdefghijklmnopqrstuvwxyz0123456789", min_size=1, max_size=12)
job_names = st.lists(words, min_size=1, max_size=20).map("-".join) | st.lists(words, min_size=1, max_size=20).map(
    ".".join
)
variable = st.builds(
    lambda name, value: {"name": name, "value": value},
    st.sampled_from(["HOME", "A", "B", "NVIDIA_VISIBLE_DEVICES", "OMP_NUM_THREADS", "PYTHONPATH"]),
    st.sampled_from(["", "x", "$(A)/y"]),
)
env = st.lists(variable, max_size=5, unique_by=lambda entry: entry["name"])
volumes = st.lists(
    st.sampled_from(["data", "gpujob-shm", "gpujob-home", "gpujob-home-x"]).map(lambda n: {"name": n, "emptyDir": {}}),
    max_size=3,
    unique_by=lambda volume: volume["name"],
)
ids = st.none() | st.integers(0, 70_000)


def _known(entries: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in entries.items() if value is not None}


@st.composite
def samples(draw: st.DrawFn) -> Sample:
    nodes, gpus = draw(st.integers(1, 4)), draw(st.integers(1, 16))
    own_volumes = draw(volumes)
    paths = draw(st.permutations(["/dev/shm", "/gpujob/home", "/data", "/tmp"]))
    job = job_of(
        name=draw(job_names)[:253],
        uid=draw(st.uuids()).hex,
        nodes=nodes,
        gpusPerNode=gpus,
        env=draw(env),
        envByBackend={"cuda": draw(env), "rocm": draw(env)},
        volumes=own_volumes,
        volumeMounts=[{"name": v["name"], "mountPath": p} for v, p in zip(own_volumes, paths, strict=False)],
        securityContext=_known(
            {
                "runAsUser": draw(ids),
                "runAsGroup": draw(ids),
                "fsGroup": draw(ids),
                "supplementalGroups": draw(st.lists(st.integers(0, 2000), max_size=3, unique=True)),
                "runAsNonRoot": draw(st.none() | st.booleans()),
                "readOnlyRootFilesystem": draw(st.none() | st.booleans()),
            }
        ),
        **draw(
            st.sampled_from(
                [
                    {},
                    {"code": {"configMap": {"name": "code"}}},
                    {"code": {"persistentVolumeClaim": {"claimName": "code"}}},
                ]
            )
        ),
    )
    pool = replace(
        draw(st.sampled_from([MI300X, H100])),
        supplemental_groups=tuple(draw(st.lists(st.integers(0, 2000), max_size=3, unique=True))),
        runtime_class=draw(st.sampled_from([None, "nvidia-cdi"])),
        env=tuple(draw(env)),
        capacity_type=draw(st.sampled_from(CapacityType)),
    )
    needs = Resources(
        draw(st.integers(1, 200_000)), draw(st.integers(MI, 2_000 * GI)), draw(st.none() | st.integers(MI, GI)), 1
    )
    names = (f"node-{number}" for number in range(nodes))
    choice = choice_of(pool, *names, needs=needs, shared_memory=needs.memory, gpus=gpus)
    return Sample(job, choice, draw(st.sampled_from([frozenset(), frozenset({"nvidia"})])), draw(st.integers(1, 999)))


def _pod(sample: Sample) -> dict[str, Any]:
    spec: dict[str, Any] = sample.children().job["spec"]["template"]["spec"]
    return spec


def _containers(pod: dict[str, Any]) -> list[dict[str, Any]]:
    return [*pod.get("initContainers", []), *pod["containers"]]


@given(samples())
@settings(max_examples=300, deadline=None)
def test_pods_pass_the_restricted_level_unless_the_user_asks_for_root(sample: Sample) -> None:
    context = sample.job.spec.security_context
    broken = {rule.partition(": ")[2] for rule in violations(_pod(sample))}
    if context and context.run_as_user == 0:
        assert "runAsUser" in broken
        assert broken <= {"runAsUser", "runAsNonRoot"}
    else:
        assert broken == set()


@given(samples())
@settings(deadline=None)
def test_a_pod_asks_for_devices_of_one_vendor_only(sample: Sample) -> None:
    pod, pool = _pod(sample), sample.choice.candidate.pool
    resources = [c["resources"] for c in _containers(pod)]
    asked = {key for each in resources for kind in ("requests", "limits") for key in each.get(kind, ()) if "/" in key}
    assert asked == {pool.resource}
    if pool.vendor is Vendor.AMD:
        assert "runtimeClassName" not in pod
    else:
        assert set(pod["securityContext"].get("supplementalGroups", ())) <= set(
            sample.job.spec.security_context.supplemental_groups  # type: ignore[union-attr]
        )


@given(samples())
@settings(deadline=None)
def test_containers_without_an_nvidia_gpu_see_none_and_the_others_are_left_alone(sample: Sample) -> None:
    for container in _containers(_pod(sample)):
        values = [entry["value"] for entry in container["env"] if entry["name"] == "NVIDIA_VISIBLE_DEVICES"]
        assert values == ([] if "nvidia.com/gpu" in container["resources"]["limits"] else ["void"])


@given(samples())
@settings(deadline=None)
def test_every_container_has_equal_cpu_and_memory_requests_and_limits(sample: Sample) -> None:
    pod = _pod(sample)
    for container in _containers(pod):
        # What Kubernetes makes of limits alone; policies for Jobs look for both in the program's container.
        written = container["resources"].get("requests", container["resources"]["limits"])
        assert written == container["resources"]["limits"]
        assert ("requests" in container["resources"]) == (container in pod["containers"])
        assert {"cpu", "memory"} <= set(container["resources"]["limits"])


@given(samples())
@settings(deadline=None)
def test_names_labels_and_mounts_are_what_the_api_server_takes(sample: Sample) -> None:
    children = sample.children()
    template = children.job["spec"]["template"]
    for metadata in (children.job["metadata"], template["metadata"], (children.service or children.job)["metadata"]):
        assert all(len(v) <= 63 and LABEL_VALUE.fullmatch(v) for v in metadata["labels"].values())
    name = children.job["metadata"]["name"]
    assert DNS_LABEL.fullmatch(f"{name}-{children.job['spec']['completions'] - 1}")
    names = [volume["name"] for volume in template["spec"]["volumes"]]
    assert len(names) == len(set(names))
    for container in _containers(template["spec"]):
        paths = [mount["mountPath"] for mount in container["volumeMounts"]]
        assert len(paths) == len(set(paths))
        assert {mount["name"] for mount in container["volumeMounts"]} <= set(names)


@given(samples())
@settings(deadline=None)
def test_equal_inputs_give_equal_children_of_plain_json(sample: Sample) -> None:
    first, second = sample.children(), sample.children()
    assert first == second
    for child in (first.job, first.service):
        assert json.loads(json.dumps(child)) == child
