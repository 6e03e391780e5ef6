"""`render` shows what the operator would create, under a uid that it says stands for another."""

from __future__ import annotations

import json

import yaml
from cli_room import CATALOG, MIXED, Answer, Command, manifest

from gpujob.render.runner_files import load_runner

UID = "00000000-0000-4000-8000-000000000000"


def render(gpujob: Command, job: str, *options: str) -> Answer:
    return gpujob("render", "-f", "-", "--cluster", MIXED, "--catalog", CATALOG, *options, stdin=job)


def test_a_placed_job_becomes_objects_that_name_the_chosen_node(gpujob: Command) -> None:
    answer = render(gpujob, manifest(nodes=2, gpusPerNode=4), "-n", "team")
    objects = list(yaml.safe_load_all(answer.out))
    assert answer.code == 0
    assert [found["kind"] for found in objects] == ["Service", "Job"]
    assert {found["metadata"]["namespace"] for found in objects} == {"team"}
    assert objects[1]["metadata"]["ownerReferences"][0]["uid"] == UID
    assert "mi210-0" in answer.out
    assert (
        answer.err.splitlines()[0]
        == f"do not apply these objects, the operator creates them: uid {UID} is a placeholder"
    )


def test_json_is_one_list_that_kubectl_can_read(gpujob: Command) -> None:
    found = json.loads(render(gpujob, manifest() + manifest("other"), "-o", "json").out)
    assert found["kind"] == "List"
    assert [item["kind"] for item in found["items"]] == ["Job", "Job"]


def test_a_job_without_a_place_has_no_objects_but_the_plans_words_and_exit_code(gpujob: Command) -> None:
    answer = render(gpujob, manifest(gpuMemory="500G"))
    assert (answer.code, answer.out) == (4, "")
    assert answer.err.startswith("Impossible train: none of 6 pools can ever run it")


def test_a_uid_that_the_manifest_has_is_kept(gpujob: Command) -> None:
    answer = render(
        gpujob, manifest().replace("name: train", "name: train\n  uid: 11111111-0000-4000-8000-000000000000")
    )
    assert "11111111-0000-4000-8000-000000000000" in answer.out
    assert answer.err.splitlines()[0] == "do not apply these objects, the operator creates them"


def test_the_config_map_that_pods_mount_is_told_once_for_each_namespace(gpujob: Command) -> None:
    answer = render(gpujob, manifest() + manifest("other"), "-n", "team")
    mounted = load_runner().name
    assert answer.out.count(f"name: {mounted}") == 2
    told = f"ConfigMap {mounted}, which the pods mount at /opt/gpujob, is not shown: the operator puts it into namespace team"
    assert [line for line in answer.err.splitlines() if "ConfigMap" in line] == [told]
    assert answer.err.count("do not apply these objects") == 1
