"""The operator's image, built from images/operator/Dockerfile by buildah where no registry of images is reached.

Only the base image differs from a user's build: it is Debian's of the same release, made of its packages, once. buildah keeps
the layers in the user's cache, so that a change of the operator's code alone builds the last layer.
"""

import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.e2e.cluster.binaries import cache
from tests.e2e.cluster.locks import locked
from tests.e2e.cluster.state import REPOSITORY, ClusterError

REFERENCE = "test.invalid/gpujob-operator:dev"
DOCKERFILE = Path("images") / "operator" / "Dockerfile"
PREVIOUS = "62b425303538891150c7f2a831c4fcf6c4db2b0c"
"""The commit that stands for the previous version until there is a release: another CRD, chart and operator, the same base image."""
PREVIOUS_REFERENCE = "test.invalid/gpujob-operator:previous"
_RELEASE = "trixie"
BASE = f"localhost/debian-{_RELEASE}"
_CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
_PROGRAMS = ("buildah", "mmdebstrap")


def previous(folder: Path) -> Path:
    """The files of the previous version, written below a folder; ClusterError where the clone has no such commit."""
    archived = subprocess.run(["git", "archive", PREVIOUS], cwd=REPOSITORY, capture_output=True, check=False)
    if archived.returncode:
        raise ClusterError(
            f"the previous version, commit {PREVIOUS}, is not in this clone: run `git fetch --unshallow`"
        )
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archived.stdout, check=True)
    return folder


def build(source: Path = REPOSITORY, reference: str = REFERENCE) -> Path:
    """An archive with the image as a checkout has it, for `ctr images import`."""
    absent = [program for program in _PROGRAMS if shutil.which(program) is None]
    if absent:
        raise ClusterError(f"building the operator's image needs {', '.join(absent)}: run `make node-packages`")
    archive = _folder() / f"{reference.rpartition(':')[2]}.tar"
    with locked(cache() / "operator-image.lock"), tempfile.TemporaryDirectory() as scratch:
        began = time.monotonic()
        make_base()
        # pip trusts what this machine trusts, by the same two secrets that a user behind a proxy gives.
        settings = Path(scratch, "pip.conf")
        settings.write_text("[global]\ncert = /run/certificates.pem\n")
        secrets = (f"id=pip-conf,src={settings}", f"id=certificates,src={_CERTIFICATES}")
        buildah(
            "build", "--quiet", "--layers", "--isolation=chroot", "--network=host", "--timestamp=0",
            *(f"--secret={each}" for each in secrets), f"--build-arg=BASE={BASE}",
            f"--file={source / DOCKERFILE}", f"--tag={reference}", str(source),
        )  # fmt: skip
        # Another process of tests may import the one that is there.
        unfinished = archive.with_suffix(".new")
        unfinished.unlink(missing_ok=True)
        buildah("push", "--quiet", reference, f"docker-archive:{unfinished}:{reference}")
        unfinished.replace(archive)
        print(f"built the operator's image in {time.monotonic() - began:.0f} s", flush=True)
    return archive


def configuration() -> dict[str, Any]:
    """The built image's configuration as OCI defines it."""
    found: dict[str, Any] = json.loads(buildah("inspect", "--type=image", REFERENCE))["OCIv1"]["config"]
    return found


@contextmanager
def mounted() -> Iterator[Path]:
    """The root folder of a container of the built image; it goes with the block."""
    container = buildah("from", REFERENCE)
    try:
        yield Path(buildah("mount", container))
    finally:
        buildah("rm", container)


def buildah(*words: str) -> str:
    """What buildah prints; ClusterError with its last lines where it fails."""
    store = _folder() / "store"
    command = ["buildah", f"--root={store}", f"--runroot={store}-run", "--storage-driver=overlay", *words]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise ClusterError(f"`buildah {words[0]}`: {chr(10).join((done.stdout + done.stderr).splitlines()[-20:])}")
    return done.stdout.strip()


def _folder() -> Path:
    folder = cache() / "operator-image"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def make_base() -> None:
    """Makes the Debian that images are built on, BASE, where buildah's store lacks it."""
    if BASE in buildah("images", "--format={{.Name}}").splitlines():
        return
    print("making a Debian to build the operator's image in, about a minute the first time", flush=True)
    options = ["--variant=apt", '--aptopt=Acquire::Languages "none"', "--dpkgopt=force-unsafe-io"]
    with tempfile.TemporaryDirectory() as scratch:
        done = subprocess.run(
            ["mmdebstrap", *options, _RELEASE, f"{scratch}/base.tar"], check=False, capture_output=True, text=True
        )
        if done.returncode:
            raise ClusterError(f"mmdebstrap: {done.stderr[-2000:]}")
        Path(scratch, "Dockerfile").write_text("FROM scratch\nADD base.tar /\n")
        buildah("build", "--quiet", f"--file={scratch}/Dockerfile", f"--tag={BASE}", scratch)
