"""The whole preflight under the oldest Python that it promises, with simulated torches; and by the rendered shell words."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpujob.render.pod.preflight import START
from gpujob.render.runner_files import load_runner
from gpujob_runner.preflight.folders import CACHES
from gpujob_runner.preflight.interpreter import Interpreter
from gpujob_runner.preflight.probing import Limits, probe

SOURCE = Path(__file__).parents[3] / "operator"
OLDEST = (3, 9)

TORCH = """
class _Properties:
    name = "AMD Instinct MI300X"
class _Tensor:
    def __matmul__(self, other): return self
    def __eq__(self, other): return self
    def all(self): return self
    def item(self): return {right}
class cuda:
    device_count = staticmethod(lambda: {count})
    is_available = staticmethod(lambda: {count} > 0)
    mem_get_info = staticmethod(lambda index: ({free}, 206141652992))
    get_device_properties = staticmethod(lambda index: _Properties)
    @staticmethod
    def init(): raise RuntimeError("No HIP GPUs are available")
def ones(*size, device): {body}
"""


def torch(
    folder: Path,
    *,
    count: int = 1,
    free: int = 200 << 30,
    right: bool = True,
    body: str = "return _Tensor()",
    start: str = "",
) -> None:
    """A package that answers as torch for ROCm would."""
    package = folder / "torch"
    package.mkdir()
    (package / "version.py").write_text("__version__ = '2.9.1+rocm7.2'\nhip = '7.2'\ncuda = None\n")
    text = TORCH.format(count=count, free=free, right=right, body=body)
    (package / "__init__.py").write_text(f"import os, time\n{start}\n{text}")


def started(
    folder: Path,
    *words: str,
    python: str = sys.executable,
    of_image: Mapping[str, str] | None = None,
    unset: Mapping[str, str] | None = None,
    **expected: Any,
) -> tuple[int, dict[str, Any], str]:
    """Exit code, result and what a preflight printed, run in a folder."""
    told = {"backend": "ROCm", "vendor": "AMD", "gpus": 1, "command": True, **expected}
    code = (
        "import sys; sys.path.insert(0, sys.argv.pop(1)); from gpujob_runner.preflight import main, nodes; "
        "main.MESSAGE, main.NOTE = 'message', 'note'; "
        "main.open_nodes = lambda vendor: nodes.Nodes(cards=('/dev/dri/renderD128',)); main.main()"
    )
    own = {"GPUJOB_PREFLIGHT": json.dumps(told), "PYTHONPATH": "/app", "HOME": str(folder)}
    environment = {**{k: v for k, v in os.environ.items() if k not in CACHES}, **own, **(of_image or {})}
    done = subprocess.run(
        [python, "-I", "-B", "-c", code, str(SOURCE), *(words or (python, "train.py"))],
        cwd=folder, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "Traceback" not in done.stderr, done.stderr
    assert json.loads((folder / "note").read_text()) == {"PYTHONPATH": "/app", "unset": dict(unset or {})}
    return done.returncode, json.loads((folder / "message").read_text()), done.stdout


@pytest.mark.parametrize("file", sorted((SOURCE / "gpujob_runner").rglob("*.py")), ids=lambda path: path.name)
def test_every_module_is_in_the_grammar_of_the_oldest_python(file: Path) -> None:
    tree = ast.parse(file.read_text(), feature_version=OLDEST)
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    # Arguments that are newer than the grammar.
    later = {"slots", "kw_only", "strict", "dir_fd_only"}
    assert not [
        k.arg for call in calls for k in call.keywords if k.arg in later and _name(call) in ("dataclass", "zip")
    ]


def _name(call: ast.Call) -> str:
    return call.func.id if isinstance(call.func, ast.Name) else ""


def oldest_python() -> str | None:
    """A Python of the oldest version, where this machine has one."""
    for found in (shutil.which("python3.9"), *Path.home().glob(".pyenv/versions/3.9.*/bin/python3")):
        if found and subprocess.run([str(found), "-c", ""], capture_output=True, check=False).returncode == 0:
            return str(found)
    return None


def test_the_oldest_python_runs_it(tmp_path: Path) -> None:
    python = oldest_python()
    if python is None:
        pytest.skip("the oldest Python of images, 3.9, is missing: `python3.9` on PATH or in pyenv")
    torch(tmp_path)
    code, result, _ = started(tmp_path, python=python, memory=100 << 30)
    assert (code, result["findings"]) == (0, [])


def test_a_torch_that_computes_passes_and_is_described(tmp_path: Path) -> None:
    torch(tmp_path)
    code, result, printed = started(tmp_path, memory=100 << 30)
    assert (code, result["gpujob"], result["findings"]) == (0, 1, [])
    assert result["facts"]["devices"] == [
        {"name": "AMD Instinct MI300X", "count": 1, "free": 200 << 30, "total": 206141652992}
    ]
    assert "preflight: torch: 2.9.1+rocm7.2" in printed


@pytest.mark.parametrize(
    ("reason", "made", "expected"),
    [
        ("ImageBackendMismatch", {}, {"backend": "CUDA", "vendor": "NVIDIA"}),
        ("ImageBroken", {"start": "import libamdhip64"}, {}),
        ("ImageBroken", {"start": "os._exit(11)"}, {}),
        ("ImageBroken", {"start": "raise SystemExit(1)"}, {}),
        ("DeviceUnusable", {"right": False}, {}),
        ("DeviceUnusable", {"body": "os.abort()"}, {}),
        ("DeviceUnusable", {"body": "raise RuntimeError('HIP error: invalid device function')"}, {}),
        ("DeviceUnusable", {"count": 0}, {}),
        ("DeviceCountMismatch", {"count": 2}, {}),
        ("MemBelowRequest", {"free": 12 << 30}, {"memory": 100 << 30}),
    ],
)
def test_what_is_wrong_ends_the_pod_before_the_program(
    tmp_path: Path, reason: str, made: dict[str, Any], expected: dict[str, Any]
) -> None:
    torch(tmp_path, **made)
    code, result, _ = started(tmp_path, **expected)
    assert (code, [finding["reason"] for finding in result["findings"]]) == (4, [reason])
    code, again, _ = started(tmp_path, required=False, **expected)
    assert (code, again["findings"]) == (0, result["findings"])


def test_a_device_that_hangs_is_left_behind(tmp_path: Path) -> None:
    torch(tmp_path, body="time.sleep(60)")
    seen = probe(Interpreter(sys.executable, str(tmp_path)), "ROCm", dict(os.environ), Limits(5.0, 0.5, 9.0))
    assert (seen.stage, seen.hung, seen.devices[0].product) == ("device", True, None)


def test_an_import_that_hangs_is_left_behind(tmp_path: Path) -> None:
    torch(tmp_path, start="time.sleep(60)")
    seen = probe(Interpreter(sys.executable, str(tmp_path)), "ROCm", dict(os.environ), Limits(5.0, 0.5, 9.0))
    assert (seen.stage, seen.hung, seen.import_seconds) == ("found", True, None)


def test_an_image_without_torch_is_checked_for_devices_only(tmp_path: Path) -> None:
    code, result, _ = started(tmp_path)
    assert (code, result["findings"], result["facts"].get("torch")) == (0, [], None)
    assert result["facts"]["nodes"] == 1


def test_caches_of_the_image_that_are_of_no_use_are_noted(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "model").write_text("")
    of_image = {
        "HF_HOME": "/proc/nobody/huggingface",  # nothing can be made there
        "TORCH_HOME": str(tmp_path / "new"),  # can be made
        "MPLCONFIGDIR": "/proc/self",  # takes no file and holds some: models that come with the image
        "NUMBA_CACHE_DIR": "/proc/nobody",
        "TRITON_CACHE_DIR": "/proc/nobody/triton",
        "XDG_CACHE_HOME": "relative",
        "CUDA_CACHE_PATH": str(tmp_path / "full"),
    }
    caches = ["TRITON_CACHE_DIR"]  # the job says so itself: its program gets it, and the error
    useless = {name: of_image[name] for name in ("HF_HOME", "NUMBA_CACHE_DIR")}
    code, result, printed = started(tmp_path, of_image=of_image, unset=useless, caches=caches)
    assert (code, result["findings"]) == (0, [])
    assert result["facts"]["unset"] == ["HF_HOME", "NUMBA_CACHE_DIR"]
    assert "preflight: unset: ['HF_HOME', 'NUMBA_CACHE_DIR']" in printed


def test_a_file_of_the_users_called_torch_is_no_torch(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise SystemExit(1)")
    code, result, _ = started(tmp_path)
    assert (code, result["findings"], result["facts"].get("torch")) == (0, [], None)


def test_a_torch_that_does_not_say_what_it_is_built_for_is_tried(tmp_path: Path) -> None:
    torch(tmp_path)
    (tmp_path / "torch" / "version.py").write_text("1 +")
    code, result, _ = started(tmp_path)
    assert (code, result["findings"], result["facts"]["backend"]) == (0, [], "unknown")


def test_modules_of_the_users_folder_hide_none_of_the_preflights(tmp_path: Path) -> None:
    for name in ("json", "subprocess", "gpujob_runner", "tempfile"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('taken for a module of Python')")
    code, result, _ = started(tmp_path, "true")
    # The program's own Python is asked as the program would start it, so its modules are hidden there: that is reported.
    assert (code, result["findings"][0]["reason"]) == (0, "PreflightFault")


variables = st.dictionaries(
    st.sampled_from(["HOME", "TMPDIR", "PYTHONHOME_", "LANG", "PATH", "HF_HOME", "PYTHONIOENCODING", "COLUMNS"]),
    st.text(st.characters(blacklist_characters="\0", blacklist_categories=["Cs"]), max_size=20),
    max_size=4,
)


@given(
    variables=variables,
    told=st.text(st.characters(blacklist_characters="\0", blacklist_categories=["Cs"]), max_size=40),
)
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_the_environment_it_leaves_a_result(tmp_path: Path, variables: dict[str, str], told: str) -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv.pop(1)); from gpujob_runner.preflight import main; "
        "main.MESSAGE, main.NOTE = 'message', '/nowhere/note'; main.main()"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-B", "-c", code, str(SOURCE), "python3", "train.py"],
        cwd=tmp_path, env={**variables, "GPUJOB_PREFLIGHT": told}, capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode in (0, 4)
    assert b"Traceback" not in done.stderr
    assert json.loads((tmp_path / "message").read_text())["gpujob"] == 1


@pytest.fixture
def mounted(tmp_path: Path) -> Path:
    """The runner laid out as its ConfigMap's volume lays it out."""
    runner = load_runner()
    for key, path in runner.keys.items():
        file = tmp_path / "opt" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(runner.data[key])
    return tmp_path


@pytest.mark.parametrize(("programs", "code"), [(["python3"], 0), (["python"], 0), ([], 3)])
def test_the_shell_finds_a_python(mounted: Path, programs: list[str], code: int) -> None:
    (mounted / "bin").mkdir()
    for name in programs:
        (mounted / "bin" / name).write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
        (mounted / "bin" / name).chmod(0o755)
    script = mounted / START.removeprefix("/").replace("opt/gpujob", "opt")
    text = (
        script.read_text()
        .replace("/opt/gpujob", str(mounted / "opt"))
        .replace("/dev/termination-log", str(mounted / "message"))
    )
    text = text.replace(
        "main()'", f'import gpujob_runner.preflight.main as m; m.MESSAGE = "{mounted}/message"; main()\''
    )
    script.write_text(text)
    done = subprocess.run(
        ["/bin/sh", str(script), "sh", "-c", "true"], cwd=mounted, env={"PATH": str(mounted / "bin")},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode in (code, 4) if programs else done.returncode == code, done.stderr
    message = json.loads((mounted / "message").read_text())
    assert bool(programs) != (message["findings"] == [{"reason": "NoInterpreter"}])
