"""Container images as docker-archives, written from folders on this machine: no registry, no build tool, no daemon."""

import hashlib
import io
import json
import tarfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

_CHUNK = 1 << 22


@dataclass(frozen=True, slots=True)
class Layer:
    """A folder of this machine and where it is in the image."""

    folder: Path
    at: str = "."


@dataclass(frozen=True, slots=True)
class Image:
    """What an image is made of; its name is one that no registry can have."""

    name: str
    layers: tuple[Layer, ...]
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def reference(self) -> str:
        """What a pod calls it."""
        return f"test.invalid/{self.name}:1"


def write(image: Image, target: Path, written: dict[Layer, tuple[str, Path]]) -> None:
    """Writes an archive; `written` keeps the layers, for images share them."""
    for layer in image.layers:
        if layer not in written:
            beside = target.with_name(f"layer-{len(written)}.tar")
            _write_layer(layer, beside)
            written[layer] = _digest(beside), beside
    digests = [written[layer][0] for layer in image.layers]
    config = json.dumps(_config(image, digests)).encode()
    name = f"{hashlib.sha256(config).hexdigest()}.json"
    files = [f"{digest}/layer.tar" for digest in digests]
    manifest = [{"Config": name, "RepoTags": [image.reference], "Layers": files}]
    with tarfile.open(target, "w") as archive:
        _add(archive, name, config)
        for layer, file in zip(image.layers, files, strict=True):
            archive.add(written[layer][1], arcname=file)
        _add(archive, "manifest.json", json.dumps(manifest).encode())


def _config(image: Image, digests: Iterable[str]) -> dict[str, object]:
    environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", **image.environment}
    return {
        "architecture": "amd64",
        "os": "linux",
        "config": {
            "Entrypoint": list(image.entrypoint),
            "Cmd": list(image.command),
            "Env": [f"{key}={value}" for key, value in environment.items()],
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}" for digest in digests]},
    }


def _write_layer(layer: Layer, target: Path) -> None:
    with tarfile.open(target, "w", format=tarfile.GNU_FORMAT) as archive:
        archive.add(layer.folder, arcname=layer.at, filter=_owned_by_root)


def _owned_by_root(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    # Whatever umask the files were made under: a job is not root, and must be able to read them.
    member.mode |= 0o555 if member.isdir() or member.mode & 0o100 else 0o444
    return member


def _digest(file: Path) -> str:
    digest = hashlib.sha256()
    with file.open("rb") as content:
        while chunk := content.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    archive.addfile(member, io.BytesIO(content))
