"""`make verify-on-gpu`: which jobs it submits, what its archive holds, and that it leaves no job; kubectl is a stand-in."""

from __future__ import annotations

import json
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

from demo.on_gpus import Cluster, Trial, trials_for, verify
from gpujob.api.manifest import read_gpujob

KUBECTL = """#!{python}
import json, pathlib, sys
here = pathlib.Path({folder!r})
words = sys.argv[1:]
with (here / "calls").open("a") as calls:
    calls.write(json.dumps(words) + "\\n")
if words[:2] == ["gpujob", "pools"]:
    print((here / "pools").read_text())
elif words[:2] == ["gpujob", "logs"]:
    print("log of", words[2])
elif words[0] == "gpujob":
    print("{{}}")
elif "create" in words:
    made = json.load(sys.stdin)["metadata"]["name"]
    if (here / "refuse").exists():
        sys.exit("no right to create")
    (here / made).write_text((here / "state").read_text())
elif "--output=jsonpath={{.status.state}}" in words:
    print((here / words[words.index("gpujob") + 1]).read_text())
else:
    print("{{}}")
"""


def pool(vendor: str, total: int) -> dict[str, Any]:
    return {"vendor": vendor, "gpus": {"free": total, "total": total}}


@pytest.fixture
def stand_in(tmp_path: Path) -> Path:
    (tmp_path / "pools").write_text(json.dumps([pool("AMD", 8), pool("NVIDIA", 1)]))
    (tmp_path / "state").write_text("Succeeded")
    program = tmp_path / "kubectl"
    program.write_text(KUBECTL.format(python=sys.executable, folder=str(tmp_path)))
    program.chmod(0o755)
    return tmp_path


def run(folder: Path, seconds: float = 5) -> int:
    return verify(Cluster("team", str(folder / "kubectl")), "team", seconds, folder / "out.tar.gz", pause=0.01)


def calls(folder: Path) -> list[list[str]]:
    return [json.loads(line) for line in (folder / "calls").read_text().splitlines()]


def test_each_vendor_gets_a_job_of_one_gpu_and_one_of_two_where_it_has_them() -> None:
    pools = [pool("AMD", 1), pool("AMD", 4), pool("NVIDIA", 1)]
    assert [(each.vendor, each.gpus) for each in trials_for(pools, "x")] == [("AMD", 1), ("AMD", 2), ("NVIDIA", 1)]
    assert trials_for([pool("NVIDIA", 0)], "x") == []


@pytest.mark.parametrize("gpus", [1, 2])
def test_its_jobs_are_manifests_whose_programs_are_python(gpus: int) -> None:
    job = read_gpujob(Trial("verify-amd-1-x", "AMD", gpus).manifest())
    program = next(word for word in job.spec.command if "import" in word)
    compile(program, "program", "exec")
    assert job.spec.placement is not None
    assert job.spec.placement.vendors == ("AMD",)


def test_it_writes_one_archive_and_leaves_no_job(stand_in: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(stand_in) == 0
    with tarfile.open(stand_in / "out.tar.gz") as archive:
        names = archive.getnames()
    of_jobs = {name.split("/")[2] for name in names if name.count("/") == 2}
    assert of_jobs == {"gpujob.json", "log.txt", "events.txt"}
    assert {name.split("/")[1] for name in names if name.count("/") == 1} == {
        "version.json", "cluster.yaml", "pools.json", "doctor.json",
    }  # fmt: skip
    (deleted,) = [words for words in calls(stand_in) if "delete" in words]
    assert len([word for word in deleted if word.startswith("verify-")]) == 3
    assert "AMD     2 GPU  Succeeded" in capsys.readouterr().out


@pytest.mark.parametrize("state", ["Failed", "Impossible", "Running", ""])
def test_what_did_not_succeed_is_shown_and_packed_too(stand_in: Path, state: str) -> None:
    (stand_in / "state").write_text(state)
    assert run(stand_in, seconds=0.2) == 1
    assert (stand_in / "out.tar.gz").exists()
    assert any("delete" in words for words in calls(stand_in))


def test_without_pools_or_rights_it_says_so(stand_in: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (stand_in / "refuse").touch()
    assert run(stand_in) == 2
    assert "was not accepted: no right to create" in capsys.readouterr().err
    (stand_in / "pools").write_text("[]")
    assert run(stand_in) == 2
    assert capsys.readouterr().err == "no pool has a GPU: `kubectl gpujob doctor` says why\n"
