"""Builds the programs of a cluster from the Go module in go/, and keeps them in the user's cache folder.

Called by `up` (and by `python -m tests.e2e.cluster build`). The module only lists tools and their versions; go.sum pins
every byte. A folder of the cache is named after go.sum and the build's flags: a newer Kubernetes gets a new one. The
first build takes about eight minutes on two cores, so it says what it does.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from .locks import locked
from .state import ClusterError
from .toolchain import go_for

MODULE = Path(__file__).resolve().parent / "go"
_COMMAND = "k8s.io/kubernetes/cmd/"
HELM_3_MODULE = MODULE.parent / "helm3"
"""A module of its own: one module has one version of what both Helms are made of."""
CLIENTS = ("k8s.io/kubernetes/cmd/kubectl", "sigs.k8s.io/kwok/cmd/kwok", "helm.sh/helm/v4/cmd/helm")
CONTROL_PLANE = (
    _COMMAND + "kube-apiserver",
    _COMMAND + "kube-controller-manager",
    _COMMAND + "kube-scheduler",
    "go.etcd.io/etcd/server/v3",
    *CLIENTS,
)
NODE = (_COMMAND + "kubelet", _COMMAND + "kube-proxy")
HELM_3 = ("helm.sh/helm/v3/cmd/helm",)
KIND = ("sigs.k8s.io/kind",)
RELEASE_MODULE = MODULE.parents[2] / "contract" / "programs"
RELEASE_TOOLS = (
    "sigs.k8s.io/krew/cmd/krew",
    "sigs.k8s.io/krew/cmd/validate-krew-manifest",
    "github.com/operator-framework/api/cmd/operator-verify",
    "github.com/rhysd/actionlint/cmd/actionlint",
    "./registry",
    "./vex",
)
"""What reads the files of a release, and a registry that they are pushed to."""
GITOPS = ("./gitops",)
"""What reads the health of objects as tools of GitOps do."""
GROUPS = {
    "control-plane": (CONTROL_PLANE, MODULE),
    "clients": (CLIENTS, MODULE),
    "node": (NODE, MODULE),
    "kind": (KIND, MODULE),
    "helm-3": (HELM_3, HELM_3_MODULE),
    "release": (RELEASE_TOOLS, RELEASE_MODULE),
    "gitops": (GITOPS, MODULE),
}
"""Packages by what they are for, each with the module that pins their versions."""
_RENAMED = {"server": "etcd"}
_PROGRESS_SECONDS = 5.0


def cache() -> Path:
    """Where built programs are kept: $XDG_CACHE_HOME/gpujob-operator or ~/.cache/gpujob-operator."""
    named = os.environ.get("XDG_CACHE_HOME")
    return (Path(named) if named else Path.home() / ".cache") / "gpujob-operator"


def ldflags(go_mod: str) -> str:
    """Linker flags: no debug symbols, and, in Kubernetes' own programs, the version that they report."""
    versions = (line.split()[-1] for line in go_mod.splitlines() if line.strip().startswith("k8s.io/kubernetes v"))
    version = next(versions, "")
    if not version:
        return "-s -w"
    major, minor = version.lstrip("v").split(".")[:2]
    stamp = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
    return " ".join(["-s -w", *(f"-X k8s.io/component-base/version.{key}={value}" for key, value in stamp.items())])


def folder(packages: tuple[str, ...], module: Path = MODULE) -> Path:
    """The cache folder of a group of programs, built or not; a package of the module's own counts with its source."""
    recipe = [(module / "go.sum").read_text(), ldflags(_flat((module / "go.mod").read_text())), *packages]
    own = (package for package in packages if package.startswith("./"))
    recipe += [source.read_text() for package in own for source in sorted((module / package).glob("*.go"))]
    return cache() / f"bin-{hashlib.sha256(chr(10).join(recipe).encode()).hexdigest()[:12]}"


def build(packages: tuple[str, ...] = CONTROL_PLANE, module: Path = MODULE) -> Path:
    """The folder with these programs; builds them where they are missing. Two builds at once wait for each other."""
    target = folder(packages, module)
    if target.exists():
        return target
    with locked(cache() / "build.lock"):
        if not target.exists():
            unfinished = target.with_name(target.name + ".unfinished")
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir(parents=True)
            _compile(packages, unfinished, module)
            for built, name in _RENAMED.items():
                if (unfinished / built).exists():
                    (unfinished / built).rename(unfinished / name)
            unfinished.rename(target)
    return target


def _flat(go_mod: str) -> str:
    """go.mod without its comments and without the words `require` and `replace` before a single entry."""
    return "\n".join(line.split("//")[0].removeprefix("require ").strip() for line in go_mod.splitlines())


def _compile(packages: tuple[str, ...], output: Path, module: Path) -> None:
    go = str(go_for(module, cache()))
    built = [package.removesuffix("/v3").rsplit("/", 1)[-1] for package in packages]
    names = ", ".join(_RENAMED.get(name, name) for name in built)
    print(f"building {names} with {go}; the first time it takes minutes", flush=True)
    total = len(_run([go, "list", "-deps", *packages], module, _fetching))
    flags = ["-v", "-trimpath", "-ldflags", ldflags(_flat((module / "go.mod").read_text()))]
    _run([go, "build", *flags, "-o", f"{output}{os.sep}", *packages], module, lambda lines: _compiling(lines, total))


def _fetching(lines: list[str]) -> str:
    return f"{len(lines)} modules fetched: {lines[-1].removeprefix('go: downloading ')}" if lines else "reading modules"


def _compiling(lines: list[str], total: int) -> str:
    packages = [line for line in lines if not line.startswith("go: ")]
    if not packages:
        return "nothing new to compile, linking"
    return f"{len(packages)} of at most {total} packages compiled, now {packages[-1]}"


def _run(command: list[str], module: Path, progress: Callable[[list[str]], str]) -> list[str]:
    """Runs Go in a module and returns its output lines; every few seconds prints what it is at."""
    environment = {
        **os.environ,
        "CGO_ENABLED": "0",
        "GOFLAGS": "-mod=readonly",
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
    }
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder_of_logs:
        answer, log = Path(folder_of_logs, "answer"), Path(folder_of_logs, "log")
        with answer.open("w") as stdout, log.open("w") as stderr:
            go = subprocess.Popen(command, cwd=module, env=environment, stdout=stdout, stderr=stderr)
        while _still_running(go):
            print(f"  {time.monotonic() - started:4.0f} s  {progress(log.read_text().splitlines())}", flush=True)
        if go.returncode:
            sys.stderr.write("\n".join(log.read_text().splitlines()[-20:]) + "\n")
            raise ClusterError(f"`{' '.join(command[:2])}` failed; its last lines are above")
        return answer.read_text().splitlines()


def _still_running(go: subprocess.Popen[bytes]) -> bool:
    try:
        go.wait(_PROGRESS_SECONDS)
    except subprocess.TimeoutExpired:
        return True
    except BaseException:
        go.terminate()
        raise
    return False
