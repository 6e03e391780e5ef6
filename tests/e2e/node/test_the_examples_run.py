"""The examples that need no GPU library run on real nodes, as uid 1000 in a namespace that enforces "restricted".

Their code and settings are taken as they are; the image is the one that these nodes have, which has the libraries that the
examples would fetch, and the pods ask for less, for all nodes share this machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.api_server import CLAIMS, CONFIG_MAPS, VOLUMES, ApiServer
from tests.e2e.cluster import Cluster, eventually
from tests.e2e.node import store
from tests.e2e.node.training import Trainers
from tests.e2e.operator_process import OperatorProcess

pytestmark = [pytest.mark.e2e, pytest.mark.node]

EXAMPLES = Path(__file__).parent.parent.parent.parent / "examples"
SMALL = {"cpu": "700m", "memory": "2Gi"}


def documents(name: str) -> list[dict[str, Any]]:
    """The objects of an example, the job last."""
    return list(yaml.safe_load_all((EXAMPLES / f"{name}.yaml").read_text()))


def start(
    team: Trainers, name: str, *command: str, environment: dict[str, str] | None = None, **changes: Any
) -> tuple[str, str]:
    """Submits an example with the code that it brings along; gives the job's name and uid."""
    *others, job = documents(name)
    for each in others:
        if each["kind"] == "ConfigMap" and team.api.find(team_maps(team), each["metadata"]["name"]) is None:
            team.api.create(team_maps(team), each)
    spec = {"resources": SMALL, **job["spec"], **changes}
    own = {each["name"]: each["value"] for each in spec.pop("env", [])} | (environment or {})
    spec["env"] = [{"name": key, "value": value} for key, value in own.items()]
    words = command or tuple(spec["command"])
    del spec["command"]
    return job["metadata"]["name"], team.run(job["metadata"]["name"], *words, image=store.TORCH, **spec)


def team_maps(team: Trainers) -> str:
    return CONFIG_MAPS.format(team.namespace)


def test_fine_tuning_with_a_tiny_model(operator: OperatorProcess, team: Trainers) -> None:
    tiny = {"MODEL": "", "LENGTH": "64"}
    name, uid = start(team, "02-finetune-one-gpu", "python3", "train.py", environment=tiny)
    state, (printed,) = team.result(name, uid, timeout=180)
    assert (state, printed.count("loss")) == ("Succeeded", 20), printed


def test_ddp_over_two_nodes(operator: OperatorProcess, team: Trainers) -> None:
    name, uid = start(team, "03-ddp-two-nodes", placement={"vendors": ["AMD"]})
    state, printed = team.result(name, uid, timeout=240)
    assert state == "Succeeded", printed
    assert {pod["spec"]["nodeName"] for pod in team.pods(uid)} == {"amd-0", "amd-1"}
    assert all(f"rank {rank} of 4 done, loss 0.0" in printed[rank // 2] for rank in range(4)), printed


@pytest.fixture
def checkpoints(cluster: Cluster, api: ApiServer, team: Trainers) -> Iterator[Path]:
    """The volume behind the claim of the example: a folder of this machine, which every node has."""
    folder = cluster.dir / f"checkpoints-of-{team.namespace}"
    folder.mkdir()
    folder.chmod(0o777)
    claim = next(each for each in documents("04-fsdp-checkpoint") if each["kind"] == "PersistentVolumeClaim")
    modes, size = claim["spec"]["accessModes"], claim["spec"]["resources"]["requests"]
    volume = {"accessModes": modes, "storageClassName": "", "capacity": size, "hostPath": {"path": str(folder)}}
    api.create(
        VOLUMES, {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": folder.name}, "spec": volume}
    )
    claim["spec"] |= {"storageClassName": "", "volumeName": folder.name}
    api.create(CLAIMS.format(team.namespace), claim)
    yield folder
    team.clear()
    api.delete(CLAIMS.format(team.namespace), claim["metadata"]["name"])
    api.delete(VOLUMES, folder.name)


def test_fsdp_is_stopped_and_goes_on_from_its_checkpoint(
    operator: OperatorProcess, team: Trainers, checkpoints: Path
) -> None:
    first, uid = start(team, "04-fsdp-checkpoint", environment={"STEPS": "20"}, gpusPerNode=2)
    state, printed = team.result(first, uid, timeout=240)
    assert state == "Succeeded", printed
    assert sorted(path.name for path in checkpoints.iterdir()) == ["10", "20"]
    team.delete(first)
    eventually(lambda: not team.pods(uid), 60, what="the pods of the first run gone")
    # On half of the GPUs: the parts of a checkpoint find their way to other ranks than those that wrote them.
    again, uid = start(team, "04-fsdp-checkpoint", environment={"STEPS": "30"}, gpusPerNode=1)
    state, printed = team.result(again, uid, timeout=240)
    assert state == "Succeeded", printed
    assert all(f"rank {rank} goes on from step 20" in printed[rank] for rank in range(2)), printed
    assert (checkpoints / "30").is_dir()


def test_a_trainer_on_two_gpus_of_a_node(operator: OperatorProcess, team: Trainers) -> None:
    name, uid = start(team, "05-hugging-face-trainer", "torchrun", "train.py", environment={"STEPS": "20"})
    state, (printed,) = team.result(name, uid, timeout=240)
    assert state == "Succeeded", printed
    assert "train_loss" in printed
