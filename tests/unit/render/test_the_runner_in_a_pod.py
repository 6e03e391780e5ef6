"""The runner's ConfigMap, and what of it a pod mounts: the preflight before the program, the reporter beside it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from samples import H100, MI300X, RUNNER, choice_of, job_of

from gpujob.fleet.labels.device_fraction import Portion
from gpujob.render.children import render
from gpujob.render.pod import folders
from gpujob.render.runner import ON_PATH, Runner
from gpujob.render.runner_files import load_runner
from gpujob.values.vocabulary import DeviceKind
from gpujob_runner.preflight.folders import CACHES


def pod_of(runner: Runner | None = RUNNER, pool: Any = H100, **spec: Any) -> dict[str, Any]:
    pod: dict[str, Any] = render(job_of(**spec), choice_of(pool, "n"), 1, runner=runner).job["spec"]["template"]["spec"]
    return pod


def preflight(pod: dict[str, Any]) -> dict[str, Any]:
    (found,) = (c for c in pod["initContainers"] if c["name"] == "preflight")
    return found


def variables(container: dict[str, Any]) -> dict[str, Any]:
    return {entry["name"]: entry.get("value", entry.get("valueFrom")) for entry in container["env"]}


def wanted(pod: dict[str, Any]) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(variables(preflight(pod))["GPUJOB_PREFLIGHT"])
    return told


def test_the_real_runner_fits_a_config_map() -> None:
    runner = load_runner()
    keys = {f"gpujob_runner-preflight-{name}.py" for name in ("main", "probe", "interpreter")}
    assert keys <= runner.data.keys()
    assert all(key.replace("-", "/") == path for key, path in runner.keys.items())
    assert sum(map(len, runner.data.values())) < 900_000, "a ConfigMap holds 1 MiB"
    assert len(runner.config_map("team")["metadata"]["name"]) <= 63


@pytest.mark.parametrize(
    ("spec", "needed"),
    [
        ({}, True),
        ({"preflight": "Disabled"}, False),
        ({"preflight": "Disabled", "telemetry": {}}, True),
    ],
)
def test_the_config_map_is_needed_where_something_of_it_is_mounted(spec: dict[str, Any], needed: bool) -> None:
    children = render(job_of(**spec), choice_of(H100, "n"), 1, runner=RUNNER)
    assert children.runner == (RUNNER.name if needed else "")
    volumes = [
        volume.get("configMap", {}).get("name") for volume in children.job["spec"]["template"]["spec"]["volumes"]
    ]
    assert (RUNNER.name in volumes) is needed
    assert render(job_of(**spec), choice_of(H100, "n"), 1).runner == ""


def test_other_contents_have_another_name() -> None:
    one, other = Runner({"a.py": "1"}), Runner({"a.py": "2"})
    assert one.name != other.name
    assert one.name == Runner({"a.py": "1"}).name
    assert one.config_map("team")["immutable"] is True
    assert one.volume("v") == {
        "name": "v",
        "configMap": {"name": one.name, "items": [{"key": "a.py", "path": "a.py"}]},
    }


@pytest.mark.parametrize("pool", [H100, MI300X], ids=["nvidia", "amd"])
def test_the_preflight_sees_what_the_program_will_see(pool: Any) -> None:
    pod = pod_of(pool=pool, command=["torchrun", "train.py"], args=["--lr", "0.1"], code={"configMap": {"name": "c"}})
    (train,) = pod["containers"]
    before = preflight(pod)
    for part in ("image", "volumeMounts", "securityContext", "workingDir"):
        assert before[part] == train[part], part
    # Kubernetes takes the limits for the requests that a container does not name.
    assert before["resources"] == {"limits": train["resources"]["limits"]}
    assert train["resources"]["requests"] == train["resources"]["limits"]
    assert (train["command"], train["args"]) == (["torchrun", "train.py"], ["--lr", "0.1"])
    assert before["args"] == ["torchrun", "train.py", "--lr", "0.1"]
    assert [c["name"] for c in pod["initContainers"]] == ["gpujob-code", "preflight"], "a launcher may be in the code"
    mine, its = variables(before), variables(train)
    assert {name: its[name] for name in mine if name != "GPUJOB_PREFLIGHT"} == {
        name: value for name, value in mine.items() if name != "GPUJOB_PREFLIGHT"
    }
    assert mine.keys() <= {"GPUJOB_PREFLIGHT", "HOME", "OMP_NUM_THREADS", "NVIDIA_VISIBLE_DEVICES"}


def test_the_preflight_gets_what_the_job_sets_and_what_that_refers_to() -> None:
    env = [
        {"name": "RUN", "value": "$(GPUJOB_NAME)-$(WHERE)"},
        {"name": "WHERE", "value": "$(PET_NNODES)x$(GPUJOB_GPUS_PER_NODE)"},
        {"name": "CUDA_VISIBLE_DEVICES", "value": "0"},
        {"name": "HF_HOME", "value": "/models"},
        {"name": "MPLCONFIGDIR", "value": "$(HF_HOME)/m"},
    ]
    pod = pod_of(command=["$(GPUJOB_BACKEND)/bin/python", "train.py", "$(MASTER_PORT)"], env=env)
    mine, its = variables(preflight(pod)), variables(pod["containers"][0])
    wanted_ = {"GPUJOB_NAME", "PET_NNODES", "GPUJOB_GPUS_PER_NODE", "GPUJOB_BACKEND", "MASTER_PORT"}
    assert wanted_ | {entry["name"] for entry in env} <= mine.keys()
    assert not {"GPUJOB_POOL", "PET_RDZV_BACKEND", "NUMBA_CACHE_DIR", "USER"} & mine.keys()
    order = list(mine)
    assert [name for name in order if name in its] == [name for name in its if name in mine]
    assert wanted(pod)["caches"] == ["HF_HOME", "MPLCONFIGDIR"]
    assert "caches" not in wanted(pod_of())


def test_operator_and_runner_know_the_same_caches() -> None:
    assert set(CACHES) == folders.CACHES


def test_what_was_promised_is_told() -> None:
    pod = pod_of(
        gpuMemory="80G",
        command=["python"],
        volumes=[
            {"name": "d", "persistentVolumeClaim": {"claimName": "c"}},
            {"name": "r", "persistentVolumeClaim": {"claimName": "c", "readOnly": True}},
            {"name": "s", "secret": {"secretName": "s"}},
        ],
        volumeMounts=[
            {"name": "d", "mountPath": "/checkpoints"},
            {"name": "d", "mountPath": "/data", "readOnly": True},
            {"name": "r", "mountPath": "/models"},
            {"name": "s", "mountPath": "/secret"},
        ],
    )
    told = wanted(pod)
    assert told.pop("sharedMemory") > 0
    assert told == {
        "backend": "CUDA", "vendor": "NVIDIA", "gpus": 1, "exact": True, "shared": False, "memory": 80_000_000_000,
        "folders": ["/gpujob/home"], "mounts": ["/checkpoints"], "command": True, "required": True,
    }  # fmt: skip
    assert "memory" not in wanted(pod_of())
    assert wanted(pod_of(preflight="Warn"))["required"] is False
    shared = [{"name": "s", "emptyDir": {"medium": "Memory"}}]
    own = pod_of(volumes=shared, volumeMounts=[{"name": "s", "mountPath": "/dev/shm"}])
    assert "sharedMemory" not in wanted(own), "what the user mounts there was not promised"


@pytest.mark.parametrize(
    ("kind", "exact", "shared"), [(DeviceKind.PARTITION, False, False), (DeviceKind.SHARED, False, True)]
)
def test_slices_and_shared_places_are_promised_as_such(kind: DeviceKind, exact: bool, shared: bool) -> None:
    told = wanted(pod_of(pool=replace(H100, portion=Portion(kind, "1g.10gb", None))))
    assert (told["exact"], told["shared"]) == (exact, shared)


@pytest.mark.parametrize(
    ("entry", "wanted"),
    [
        ([], {"PYTHONPATH": ON_PATH}),
        ([{"name": "PYTHONPATH", "value": ""}], {"PYTHONPATH": ON_PATH}),
        ([{"name": "PYTHONPATH", "value": "/app:/lib"}], {"PYTHONPATH": f"{ON_PATH}:/app:/lib"}),
    ],
)
def test_the_reporters_folder_comes_before_the_users(entry: list[Any], wanted: dict[str, str]) -> None:
    pod = pod_of(env=entry)
    assert wanted.items() <= variables(pod["containers"][0]).items()
    assert variables(preflight(pod)).get("PYTHONPATH") == (entry[0].get("value", "") if entry else None)


def test_settings_of_telemetry_reach_the_program_and_never_twice() -> None:
    telemetry = {"port": 9500, "samplesPerStep": 512, "tokensPerStep": 4096}
    (train,) = pod_of(telemetry=telemetry, env=[{"name": "POD_IP", "value": "mine"}])["containers"]
    told = variables(train)
    assert [told[f"GPUJOB_{n}"] for n in ("REPORT_PORT", "SAMPLES_PER_STEP", "TOKENS_PER_STEP")] == [
        "9500",
        "512",
        "4096",
    ]
    assert told["POD_IP"] == "mine"
    names = [entry["name"] for entry in train["env"]]
    assert len(names) == len(set(names))


def test_the_bound_of_a_phase_reaches_the_program_where_it_is_set() -> None:
    (train,) = pod_of(stall={"phaseSeconds": 14400})["containers"]
    assert variables(train)["GPUJOB_PHASE_SECONDS"] == "14400"
    (train,) = pod_of(stall={"afterSeconds": 300})["containers"]
    assert "GPUJOB_PHASE_SECONDS" not in variables(train)


def test_without_a_preflight_only_who_asks_is_measured() -> None:
    quiet = pod_of(preflight="Disabled")
    assert "initContainers" not in quiet
    assert not {"GPUJOB_REPORT_PORT", "PYTHONPATH"} & variables(quiet["containers"][0]).keys()
    measured = pod_of(preflight="Disabled", telemetry={})
    (note,) = measured["initContainers"]
    assert note["name"] == "gpujob-note"
    assert "nvidia.com/gpu" not in note["resources"]["limits"]
    assert variables(note)["NVIDIA_VISIBLE_DEVICES"] == "void"
    assert variables(measured["containers"][0])["PYTHONPATH"] == ON_PATH


def test_an_image_that_cannot_run_it_gets_nothing_of_it() -> None:
    pod = pod_of(runner=None)
    assert "initContainers" not in pod
    assert not [volume for volume in pod["volumes"] if "configMap" in volume]
    assert render(job_of(), choice_of(H100, "n"), 1, runner=None).runner == ""
    assert render(job_of(), choice_of(H100, "n"), 1, runner=RUNNER).runner == RUNNER.name


@pytest.mark.parametrize(
    ("command", "args", "shown"),
    [
        (["python3", "train.py"], ["--lr", "1"], ["python3", "train.py", "--lr", "1"]),
        (list("abcdef"), list("ghijk"), list("abcdefgh")),
        (list("abcdefgh"), [], list("abcdefgh")),
        ([], [], [""]),
    ],
)
def test_the_preflight_gets_the_first_eight_words_of_the_command(
    command: list[str], args: list[str], shown: list[str]
) -> None:
    said = ({"command": command} if command else {}) | ({"args": args} if args else {})
    assert preflight(pod_of(**said))["args"] == shown
