"""Makes one part of a release: `python -m release chart|bundle|plugin|krew|vex|notes OUT ...`; the Makefile has a target for each."""

from __future__ import annotations

import argparse
import base64
import json
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import yaml

from gpujob import __version__
from release import bundle, chart, plugin, vex
from release.changelog import changes_of, notes_of
from release.related_images import Image, jobs_images

ROOT: Final = Path(__file__).resolve().parents[1]
CHART: Final = ROOT / "charts" / "gpujob-operator"
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")


def main(arguments: list[str]) -> int:
    """Makes what the arguments say; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m release", description=__doc__)
    parts = parser.add_subparsers(required=True)
    for name, make in (("chart", _chart), ("bundle", _bundle), ("vex", _vex)):
        one = parts.add_parser(name)
        one.add_argument("out", type=Path)
        one.add_argument("--image", required=True, metavar="REPOSITORY@DIGEST", type=_image)
        one.set_defaults(make=make)
        if name == "bundle":
            one.add_argument("--helm", default="helm", metavar="PROGRAM")
            one.add_argument("--created", default="", metavar="TIME", help="RFC 3339; now when absent")
    one = parts.add_parser("notes")
    one.add_argument("out", type=Path)
    one.set_defaults(make=_notes)
    one = parts.add_parser("plugin")
    one.add_argument("out", type=Path)
    one.set_defaults(make=lambda asked: print(plugin.build(asked.out, __version__)))
    one = parts.add_parser("krew")
    one.add_argument("out", type=Path)
    one.add_argument("--address", required=True, metavar="URL", help="where the archives are published")
    one.add_argument("archives", nargs="+", type=Path, metavar="ARCHIVE")
    one.set_defaults(make=_krew)
    asked = parser.parse_args(arguments)
    asked.make(asked)
    return 0


def _image(word: str) -> tuple[str, str]:
    repository, at, digest = word.partition("@")
    if not (repository and at and _DIGEST.fullmatch(digest)):
        raise argparse.ArgumentTypeError(f"{word} is not REPOSITORY@sha256:…")
    return repository, digest


def _images() -> tuple[Image, ...]:
    # late import: the plugin's archive is made where the catalog is read from the archive alone
    from gpujob.catalog.files.load import load_catalog

    return jobs_images(load_catalog().runtimes)


def _notes(asked: argparse.Namespace) -> None:
    asked.out.write_text(notes_of(changes_of((ROOT / "CHANGELOG.md").read_text(), __version__)))


def _chart(asked: argparse.Namespace) -> None:
    changes = changes_of((ROOT / "CHANGELOG.md").read_text(), __version__)
    repository, digest = asked.image
    chart.write_chart(CHART, asked.out, repository, digest, _images(), changes)


def _bundle(asked: argparse.Namespace) -> None:
    repository, digest = asked.image
    facts = bundle.Facts(
        version=__version__,
        image=f"{repository}@{digest}",
        created=asked.created or datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        icon=base64.b64encode((ROOT / "docs" / "images" / "icon.svg").read_bytes()).decode(),
        chart=yaml.safe_load((CHART / "Chart.yaml").read_text()),
        images=_images(),
    )
    bundle.write_bundle(asked.out, _rendered(asked.helm, repository, digest), facts)


def _rendered(helm: str, repository: str, digest: str) -> list[dict[str, Any]]:
    """What the chart renders for a cluster with Prometheus Operator; the test of `helm test` is left out."""
    command = [
        helm, "template", bundle.PACKAGE, str(CHART), f"--namespace={bundle.NAMESPACE}", "--no-hooks", "--set=crds.keep=false",
        f"--set=image.repository={repository}", f"--set=image.digest={digest}", "--api-versions=monitoring.coreos.com/v1",
        "--kube-version=1.36.0",
    ]  # fmt: skip
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [each for each in yaml.safe_load_all(text) if each]


def _krew(asked: argparse.Namespace) -> None:
    made = plugin.manifest(__version__, asked.address, map(plugin.read_archive, asked.archives))
    asked.out.write_text(yaml.safe_dump(made, sort_keys=False))


def _vex(asked: argparse.Namespace) -> None:
    asked.out.write_text(json.dumps(vex.document(vex.read_rows(), *asked.image), indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
