"""Pods of many kinds start on real nodes, as uid 1000 in a namespace that enforces "restricted".

Twelve jobs are drawn with a fixed seed: volumes, variables, code, security, preflight, telemetry, both vendors, one pod or a
gang. Each part of a draw has a word by which its program shows that it arrived; a pod that is refused, or a volume that
is not mounted, fails the job that it belongs to.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any, Final

import pytest

from tests.e2e.api_server import CONFIG_MAPS, PODS, SECRETS
from tests.e2e.cluster import eventually
from tests.e2e.node import store
from tests.e2e.node.training import Trainers
from tests.e2e.operator_process import OperatorProcess

pytestmark = [pytest.mark.e2e, pytest.mark.node]

SEED: Final = 20261128
JOBS: Final = 12

PROGRAM = """
import json, os
from pathlib import Path

def writable(folder):
    try:
        Path(folder, "probe-" + os.environ["NODE_RANK"]).write_text("x")
        return True
    except OSError:
        return False

print(json.dumps({
    "uid": os.getuid(), "gid": os.getgid(), "groups": sorted(os.getgroups()), "cwd": os.getcwd(),
    "env": {k: os.environ[k] for k in ("PLAIN", "OF_POD", "OF_SECRET", "FROM_MAP", "STACK") if k in os.environ},
    "files": {p: Path(p).read_text() for p in ("/map/lines.py", "/secret/token", "/both/lines.py", "/image/train.py")
              if Path(p).exists()},
    "writable": {p: writable(p) for p in ("/scratch", "/ram", os.environ["HOME"], "/usr", os.getcwd()) if Path(p).exists()},
    "vendor": os.environ["GPUJOB_VENDOR"], "nodes": os.environ["PET_NNODES"],
}), flush=True)
"""

Spec = dict[str, Any]
Check = Callable[[dict[str, Any]], bool]
Part = tuple[Spec, Check]


def volume(name: str, path: str, source: Spec, check: Check) -> Part:
    """A volume with its mount."""
    return {"volumes": [{"name": name, **source}], "volumeMounts": [{"name": name, "mountPath": path}]}, check


MAP, SECRET = {"configMap": {"name": "code"}}, {"secret": {"secretName": "token"}}
PROJECTED = {"projected": {"sources": [MAP, {"secret": {"name": "token"}}]}}
VOLUMES: Final[list[Part]] = [
    volume("map", "/map", MAP, lambda told: "/map/lines.py" in told["files"]),
    volume("secret", "/secret", SECRET, lambda told: told["files"].get("/secret/token") == "hush"),
    volume("both", "/both", PROJECTED, lambda told: "/both/lines.py" in told["files"]),
    volume("scratch", "/scratch", {"emptyDir": {"sizeLimit": "16Mi"}}, lambda told: told["writable"]["/scratch"]),
    volume("ram", "/ram", {"emptyDir": {"medium": "Memory"}}, lambda told: told["writable"]["/ram"]),
    volume(
        "image",
        "/image",
        {"image": {"reference": store.CODE, "pullPolicy": "Never"}},
        lambda told: "/image/train.py" in told["files"],
    ),
]
STACKS = {"cuda": [{"name": "STACK", "value": "cuda"}], "rocm": [{"name": "STACK", "value": "rocm"}]}
VARIABLES: Final[list[Part]] = [
    (
        {"env": [{"name": "PLAIN", "value": "$(GPUJOB_VENDOR)-$(GPUJOB_ATTEMPT)"}]},
        lambda told: told["env"]["PLAIN"] == f"{told['vendor']}-1",
    ),
    (
        {"env": [{"name": "OF_POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}}]},
        lambda told: told["env"]["OF_POD"].startswith("team-"),
    ),
    (
        {"env": [{"name": "OF_SECRET", "valueFrom": {"secretKeyRef": {"name": "token", "key": "token"}}}]},
        lambda told: told["env"]["OF_SECRET"] == "hush",
    ),
    (
        {"envFrom": [{"configMapRef": {"name": "settings"}, "prefix": "FROM_"}]},
        lambda told: told["env"]["FROM_MAP"] == "set",
    ),
    ({"envByBackend": STACKS}, lambda told: told["env"]["STACK"] == {"AMD": "rocm", "NVIDIA": "cuda"}[told["vendor"]]),
]
CODE: Final[list[Part]] = [
    ({}, lambda told: True),
    ({"code": MAP}, lambda told: told["cwd"] == "/gpujob/code" and told["writable"]["/gpujob/code"]),
    ({"code": {"image": {"reference": store.CODE, "pullPolicy": "Never"}}}, lambda told: told["cwd"] == "/gpujob/code"),
    ({"code": MAP, "workingDir": "/tmp"}, lambda told: told["cwd"] == "/tmp"),
]
SECURITY: Final[list[Part]] = [
    ({}, lambda told: (told["uid"], told["gid"]) == (1000, 1000)),
    ({"securityContext": {"runAsUser": 1000, "supplementalGroups": [2000]}}, lambda told: 2000 in told["groups"]),
    ({"securityContext": {"fsGroup": 3000}}, lambda told: 3000 in told["groups"] and told["uid"] == 1000),
    ({"securityContext": {"readOnlyRootFilesystem": True}}, lambda told: not told["writable"]["/usr"]),
    ({"securityContext": {"runAsGroup": 1234, "runAsNonRoot": True}}, lambda told: told["gid"] == 1234),
]
OTHERS: Final[list[Spec]] = [
    {},
    {"telemetry": {"port": 9500}},
    {"podMetadata": {"labels": {"team.example/kind": "fuzz"}, "annotations": {"team.example/note": "of a test"}}},
    {"terminationGracePeriodSeconds": 1},
    {"resources": {"cpu": "300m", "memory": "512Mi", "sharedMemory": "64Mi", "ephemeralStorage": "256Mi"}},
    {"imagePullSecrets": [{"name": "token"}]},
]


def draw(chance: random.Random) -> tuple[Spec, list[Check]]:
    """One job and what its pods must show."""
    spec: Spec = {}
    parts = [
        *chance.sample(VOLUMES, chance.randint(0, 4)),
        *chance.sample(VARIABLES, chance.randint(0, 3)),
        chance.choice(CODE),
        chance.choice(SECURITY),
    ]
    for part, _ in parts:
        for key, value in part.items():
            spec[key] = [*spec.get(key, []), *value] if isinstance(value, list) else value
    for other in chance.sample(OTHERS, 2):
        spec |= other
    # A preflight that must pass finds devices that do not compute; that one warns and lets the program start.
    spec["preflight"] = chance.choice(["Warn", "Disabled"])
    spec["placement"] = {"vendors": [chance.choice(["AMD", "NVIDIA"])]}
    if spec["placement"]["vendors"] == ["AMD"] and chance.random() < 0.5:
        spec["nodes"] = 2
    return spec, [check for _, check in parts]


def test_twelve_jobs_of_all_kinds_start_and_see_what_they_asked_for(operator: OperatorProcess, team: Trainers) -> None:
    team.give_code("code", lines="lines = 1")
    objects = {
        CONFIG_MAPS: {"kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"MAP": "set"}},
        SECRETS: {"kind": "Secret", "metadata": {"name": "token"}, "stringData": {"token": "hush"}},
    }
    for path, body in objects.items():
        team.api.create(path.format(team.namespace), {"apiVersion": "v1", **body})
    chance = random.Random(SEED)
    drawn = {f"job-{number}": draw(chance) for number in range(JOBS)}
    assert_every_part_is_drawn([spec for spec, _ in drawn.values()])
    uids = {name: team.run(name, "python3", "-c", PROGRAM, **spec) for name, (spec, _) in drawn.items()}
    failures = []
    for name, (spec, checks) in drawn.items():
        state, printed = team.result(name, uids[name], timeout=300)
        told = [json.loads(text.splitlines()[-1]) for text in printed if text]
        if state != "Succeeded" or len(told) != spec.get("nodes", 1) or not all(c(t) for c in checks for t in told):
            failures.append((name, state, team.condition(name, "Failed").get("message"), spec, told))
    assert not failures
    assert {pod["status"]["phase"] for pod in team.api.items(PODS.format(team.namespace))} == {"Succeeded"}


def assert_every_part_is_drawn(specs: list[Spec]) -> None:
    """That the seed leaves nothing out: another list of parts may need another one."""
    keys = {key for spec in specs for key in spec}
    wanted = {key for part, _ in (*VOLUMES, *VARIABLES, *CODE, *SECURITY) for key in part}
    assert keys >= wanted | {key for other in OTHERS for key in other} | {"nodes"}
    volumes = {each["name"] for spec in specs for each in spec.get("volumes", [])}
    assert volumes == {"map", "secret", "both", "scratch", "ram", "image"}
    assert {spec["preflight"] for spec in specs} == {"Warn", "Disabled"}
    assert {spec["placement"]["vendors"][0] for spec in specs} == {"AMD", "NVIDIA"}


def test_a_secret_volume_that_is_missing_is_said_with_the_words_of_the_pods_events(
    operator: OperatorProcess, team: Trainers
) -> None:
    volumes = [{"name": "token", "secret": {"secretName": "nobodys"}}]
    mounts = [{"name": "token", "mountPath": "/token"}]
    asked = {"cpu": "100m", "memory": "128Mi"}
    team.run("lacks", "python3", "-c", "pass", volumes=volumes, volumeMounts=mounts, resources=asked)
    words = 'MountVolume.SetUp failed for volume "token" : secret "nobodys" not found'
    eventually(lambda: words in str(team.condition("lacks", "Running").get("message")), 60, what="the kubelet's words")
    assert team.state("lacks") == "Starting"
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "nobodys"}}
    team.api.create(SECRETS.format(team.namespace), secret)
    # The kubelet tries again after two minutes at most.
    assert team.until("lacks", "Succeeded", "Failed", timeout=180)["state"] == "Succeeded"
