"""Images in containerd's own form: made once into the user's cache, and linked into each node.

Unpacking PyTorch takes longer than all the rest of a start. Layers are never written, for containers write to one of
their own; so a node gets links, and copies of containerd's small databases only.
"""

import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from tests import torch_tree
from tests.e2e.cluster import eventually
from tests.e2e.cluster.binaries import cache
from tests.e2e.cluster.locks import locked
from tests.torch_tree.build import in_use, remove_unused

from . import images, programs, trees
from .images import Image, Layer

PAUSE, SHELL, DNS, PYTHON, TORCH, CODE = (
    f"test.invalid/{name}:1" for name in ("pause", "shell", "dns", "python", "torch", "code")
)
_LAUNCHERS = {"torchrun": "torch.distributed.run", "accelerate": "accelerate.commands.accelerate_cli"}
_CODE = {
    "train.py": "import os\nfrom package.lines import join\nopen('result.txt', 'w').write('written')\n"
    "print(join(os.getcwd(), os.environ['GPUJOB_BACKEND'], open('result.txt').read(), str(os.getuid())))\n",
    "package/lines.py": "def join(*words):\n    return ' '.join(words)\n",
}
"""An image that is mounted as a volume and never run: it has no shell."""

_LAYERS = "io.containerd.snapshotter.v1.overlayfs/snapshots"


def build() -> Path:
    """The folder with all images; makes them where they are missing."""
    target = cache() / f"images-{_recipe()}"
    if target.exists():
        in_use(target)
        return target
    with locked(cache() / "images.lock"):
        if not target.exists():
            began = time.monotonic()
            print(f"making images for real nodes in {target}, about 2 minutes the first time", flush=True)
            unfinished = target.with_name(target.name + ".unfinished")
            shutil.rmtree(unfinished, ignore_errors=True)
            with tempfile.TemporaryDirectory(dir=cache()) as folder:
                _fill(unfinished, Path(folder))
            unfinished.rename(target)
            in_use(target)
            remove_unused("images")
            print(f"  made after {time.monotonic() - began:.0f} s", flush=True)
    return target


def link(images_folder: Path, root: Path) -> None:
    """A root folder for one containerd, with all images: unpacked layers are shared, containerd's databases its own."""
    shutil.copytree(images_folder, root, ignore=_of_layers, copy_function=_link_or_copy)
    for layer in (images_folder / _LAYERS).iterdir():
        (root / _LAYERS / layer.name).symlink_to(layer)


def _of_layers(folder: str, names: list[str]) -> list[str]:
    return names if folder.endswith(_LAYERS) else []


def _link_or_copy(source: str, target: str) -> None:
    if source.endswith(".db"):
        shutil.copy2(source, target)
    else:
        os.link(source, target)


def _recipe() -> str:
    """Named after all that goes into it: this code, the trees, and the system whose packages and containerd are used."""
    sources = [Path(module.__file__ or "").read_text() for module in (images, trees)]
    system = platform.freedesktop_os_release().get("PRETTY_NAME", "")
    # The tree need not exist yet to have a name.
    parts = [
        *sources,
        Path(__file__).read_text(),
        torch_tree.path().name,
        programs.own().name,
        programs.runtime().name,
        system,
    ]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]


def _fill(root: Path, folder: Path) -> None:
    written: dict[Layer, tuple[str, Path]] = {}
    socket = folder / "containerd.sock"
    config = folder / "containerd.toml"
    config.write_text(f'version = 2\nroot = "{root}"\nstate = "{folder}/state"\n[grpc]\n  address = "{socket}"\n')
    with (folder / "containerd.log").open("w") as log:
        containerd = subprocess.Popen([programs.runtime() / "containerd", "--config", config], stdout=log, stderr=log)
    try:
        eventually(socket.exists, 30, what=f"containerd that makes images (its log: {log.name})")
        for image in _images(folder):
            archive = folder / "image.tar"
            images.write(image, archive, written)
            command = [
                programs.runtime() / "ctr",
                "--address",
                socket,
                "--namespace",
                "k8s.io",
                "images",
                "import",
                archive,
            ]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            archive.unlink()
    finally:
        containerd.terminate()
        containerd.wait(20)


def _images(folder: Path) -> list[Image]:
    shell, dns, python, launchers, code = (folder / name for name in ("shell", "dns", "python", "launchers", "code"))
    trees.shell(shell)
    version = trees.python(python)
    dns.mkdir()
    shutil.copy(programs.own() / "dns", dns)
    (code / "package").mkdir(parents=True)
    for name, text in _CODE.items():
        (code / name).write_text(text)
    launchers.mkdir()
    for name, module in _LAUNCHERS.items():
        script = launchers / name
        script.write_text(f"#!/usr/bin/python3\nimport sys\nfrom {module} import main\nsys.exit(main())\n")
        script.chmod(0o755)
    unbuffered = {"PYTHONUNBUFFERED": "1"}
    base = Layer(python)
    libraries = Layer(torch_tree.path(version), f"usr/local/lib/python{version}/dist-packages")
    torch = (base, libraries, Layer(launchers, "usr/local/bin"))
    return [
        Image("pause", (Layer(shell),), entrypoint=("/bin/sleep", "2147483647")),
        Image("shell", (Layer(shell),), command=("/bin/sh",)),
        Image("dns", (Layer(dns),), entrypoint=("/dns",)),
        Image("code", (Layer(code),)),
        Image("python", (base,), command=("python3",), environment=unbuffered),
        Image("torch", torch, command=("python3",), environment=unbuffered),
    ]
