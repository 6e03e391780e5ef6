"""The folder of checkpoints: mounted once, named by a variable, checked before the program starts."""

from __future__ import annotations

import json
from typing import Any

import pytest
from samples import H100, choice_of, job_of

from gpujob.render.children import render
from gpujob.render.runner_files import load_runner

VOLUMES = [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}, {"name": "w", "emptyDir": {}}]
RUNNER = load_runner()


def pod(**spec: Any) -> dict[str, Any]:
    found: dict[str, Any] = render(job_of(volumes=VOLUMES, **spec), choice_of(H100, "n"), 2, runner=RUNNER).job
    template: dict[str, Any] = found["spec"]["template"]["spec"]
    return template


def seen(**spec: Any) -> tuple[str | None, list[str]]:
    """The variable, and where volume v is mounted."""
    (container,) = pod(**spec)["containers"]
    variables = {entry["name"]: entry.get("value") for entry in container["env"]}
    assert variables["GPUJOB_ATTEMPT"] == "2"
    return variables.get("GPUJOB_CHECKPOINT_DIR"), [
        mount["mountPath"] for mount in container["volumeMounts"] if mount["name"] == "v"
    ]


@pytest.mark.parametrize(
    ("checkpoint", "mounts", "folder", "at"),
    [
        ({"volume": "v"}, [], "/checkpoint", ["/checkpoint"]),
        ({"volume": "v", "path": "/data/ckpt"}, [], "/data/ckpt", ["/data/ckpt"]),
        ({"volume": "v", "path": "/data/ckpt"}, [("v", "/data")], "/data/ckpt", ["/data"]),
        ({"volume": "v", "path": "/data"}, [("v", "/data/")], "/data", ["/data/"]),
        ({"volume": "v", "path": "/data/ckpt"}, [("w", "/data")], "/data/ckpt", ["/data/ckpt"]),
        ({"volume": "v", "path": "/database"}, [("v", "/data")], "/database", ["/data", "/database"]),
        ({"resumeOn": "AnyVendor"}, [("v", "/data")], None, ["/data"]),
    ],
)
def test_the_volume_is_mounted_where_the_program_looks(
    checkpoint: Any, mounts: list[tuple[str, str]], folder: str | None, at: list[str]
) -> None:
    own = [{"name": name, "mountPath": path} for name, path in mounts]
    assert seen(checkpoint=checkpoint, volumeMounts=own) == (folder, at)


def test_a_mount_that_is_only_read_does_not_hold_the_checkpoints() -> None:
    read = [{"name": "v", "mountPath": "/data", "readOnly": True}]
    assert seen(checkpoint={"volume": "v", "path": "/data/new"}, volumeMounts=read) == (
        "/data/new",
        ["/data", "/data/new"],
    )


def test_the_preflight_tries_to_write_there() -> None:
    (preflight,) = (c for c in pod(checkpoint={"volume": "v"})["initContainers"] if "preflight" in c["name"])
    wanted = next(entry["value"] for entry in preflight["env"] if "mounts" in str(entry.get("value")))
    assert "/checkpoint" in json.loads(wanted)["mounts"]


def test_a_job_without_checkpoints_has_no_such_folder() -> None:
    assert seen() == (None, [])


@pytest.mark.parametrize(
    ("spec", "save_seconds", "grace"),
    [
        ({}, None, 30),
        ({"checkpoint": {}}, None, 120),
        ({"checkpoint": {}}, 2, 34),
        ({"checkpoint": {}}, 200, 430),
        ({"checkpoint": {}}, 10**9, 3600),
        ({}, 200, 430),
        ({"checkpoint": {}, "terminationGracePeriodSeconds": 5}, 200, 5),
    ],
)
def test_the_time_to_end_is_sized_by_the_slowest_save(spec: Any, save_seconds: int | None, grace: int) -> None:
    found = render(job_of(**spec), choice_of(H100, "n"), 2, save_seconds=save_seconds).job
    assert found["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] == grace
    (train,) = found["spec"]["template"]["spec"]["containers"]
    # torchrun would end its ranks after 30 seconds.
    waits = [entry["value"] for entry in train["env"] if entry["name"] == "TORCH_ELASTIC_SHUTDOWN_TIMEOUT"]
    assert waits == ([str(grace - 5)] if grace > 35 else [])


def test_a_jobs_own_time_of_its_launcher_is_kept() -> None:
    own = {"name": "TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "value": "7"}
    (train,) = pod(checkpoint={"volume": "v"}, env=[own])["containers"]
    assert [entry for entry in train["env"] if entry["name"] == own["name"]] == [own]
