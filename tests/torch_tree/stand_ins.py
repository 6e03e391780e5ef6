"""Stand-ins for CUDA's libraries: the loader is content with them, and no program calls them without a GPU.

PyTorch's libraries name the ones they need, the functions that they take from them and those functions' versions. A
stand-in has just these names; without the versions the loader ends with an assertion. Each function returns 1, which
CUDA's interfaces read as an error. The CUDA runtime is the real one: `torch.cuda.is_available()` asks it.
"""

import re
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

_DRIVER = "libcuda.so.1"
"""The driver's library is loaded only once there is a driver."""
_OF_THE_SYSTEM = re.compile(r"(lib(c|m|dl|rt|z|pthread|util|gcc_s|stdc\+\+|quadmath)|ld-linux-x86-64)\.so\b")


def make(libraries: Path, real: Path) -> None:
    """Fills in what the libraries of a folder need beyond the system's, the folder's own and the real ones."""
    files = sorted(libraries.glob("*.so*"))
    needed = {name for file in files for name in _needed(file)}
    present = {file.name for file in files} | {file.name for file in real.rglob("*.so*")} | {_DRIVER}
    absent = sorted(name for name in needed - present if not _OF_THE_SYSTEM.match(name))
    versions = _versions(files)
    unversioned = _unversioned(files)
    for name in absent:
        # A name without a version is found in whichever library has it, so all of them may have all.
        _build(libraries / name, unversioned, versions.get(name, {}))


def _needed(file: Path) -> list[str]:
    return re.findall(r"\(NEEDED\).*\[(.+)\]", _run("readelf", "--dynamic", "--wide", file))


def _versions(files: Iterable[Path]) -> dict[str, dict[str, set[str]]]:
    """What is taken with a version: library, version, names."""
    found: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for file in files:
        library_of = {}
        library = ""
        for line in _run("readelf", "--version-info", "--wide", file).splitlines():
            if named := re.search(r"File: (\S+)", line):
                library = named[1]
            elif named := re.search(r"Name: (\S+)\s+Flags", line):
                library_of[named[1]] = library
        for name, version in _undefined(file):
            if version in library_of:
                found[library_of[version]][version].add(name)
    return found


def _unversioned(files: Iterable[Path]) -> set[str]:
    """What is taken without a version and defined in none of the libraries."""
    wanted, defined = set(), set()
    for file in files:
        wanted |= {name for name, version in _undefined(file) if not version}
        lines = _run("nm", "--dynamic", "--defined-only", "--format=posix", file).splitlines()
        defined |= {line.split()[0].partition("@")[0] for line in lines}
    return wanted - defined


def _undefined(file: Path) -> list[tuple[str, str]]:
    """Names that a library must find elsewhere, with their versions; those that may be missing are left out."""
    found = []
    for line in _run("nm", "--dynamic", "--undefined-only", "--format=posix", file).splitlines():
        words = line.split()
        if words[1] == "U":
            name, _, version = words[0].partition("@")
            found.append((name, version.lstrip("@")))
    return found


def _build(target: Path, unversioned: set[str], versions: dict[str, set[str]]) -> None:
    names = sorted(unversioned.union(*versions.values()))
    with tempfile.TemporaryDirectory() as folder:
        source, script = Path(folder, "stand_in.s"), Path(folder, "versions")
        entries = "".join(f'.globl "{name}"\n.type "{name}",@function\n"{name}":\n' for name in names)
        source.write_text(f'.text\n{entries} movl $1, %eax\n ret\n.section .note.GNU-stack,"",@progbits\n')
        blocks = [f"{version} {{ global: {_listed(held)} }};\n" for version, held in sorted(versions.items())]
        script.write_text("".join(blocks))
        flags = [f"-Wl,--version-script,{script}"] if blocks else []
        command = ["gcc", "-shared", "-nostdlib", f"-Wl,-soname,{target.name}", *flags, "-o", target, source]
        _run(*command)


def _listed(names: Iterable[str]) -> str:
    return " ".join(f'"{name}";' for name in sorted(names))


def _run(*command: str | Path) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout
