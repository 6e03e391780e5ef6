"""The runner in a pod: the ConfigMap that brings it, where it is mounted, and the variables that start its reporter.

It does not change the user's command: Python itself finds the reporter, in the folder that PYTHONPATH names.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from gpujob.values.vocabulary import FIELD_MANAGER, RUNNER_PREFIX, Label

Manifest = dict[str, Any]

FOLDER: Final = "/opt/gpujob"
"""Where the ConfigMap is mounted, read-only."""

NOTES: Final = "/run/gpujob"
"""A small folder that the pod's containers share: for the preflight's notes about the image and the reporter's sockets."""

NOTES_SIZE: Final = "64Mi"

ON_PATH: Final = f"{FOLDER}/gpujob_runner/onpath"
"""The folder in PYTHONPATH: sitecustomize.py and gpujob_report.py, and nothing that could hide a module of the user's."""

REPORT_PORT: Final = 9466
"""The default port of a pod's reporter."""


@dataclass(frozen=True)
class Runner:
    """The runner's files: text by path below the folder that it is mounted in."""

    files: Mapping[str, str]

    @cached_property
    def keys(self) -> Mapping[str, str]:
        """ConfigMap key -> path. A key holds no slash; no module's name holds the dash that stands for it."""
        return {path.replace("/", "-"): path for path in sorted(self.files)}

    @cached_property
    def data(self) -> Mapping[str, str]:
        """What the ConfigMap holds."""
        return {key: self.files[path] for key, path in self.keys.items()}

    @cached_property
    def name(self) -> str:
        """The ConfigMap's name: other contents, another name, so that two versions of the operator never share one."""
        return name_of(digest_of(self.data))

    def config_map(self, namespace: str) -> Manifest:
        """The ConfigMap of a namespace."""
        return {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": self.name,
                "namespace": namespace,
                "labels": {Label.MANAGED_BY: FIELD_MANAGER, Label.RUNNER: "true"},
            },
            "immutable": True,
            "data": dict(self.data),
        }

    def volume(self, name: str) -> Manifest:
        """The pod's volume of that name: each key at its path."""
        items = [{"key": key, "path": path} for key, path in self.keys.items()]
        return {"name": name, "configMap": {"name": self.name, "items": items}}


def digest_of(data: Mapping[str, str]) -> str:
    """The digest of a ConfigMap's data."""
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()


def name_of(digest: str) -> str:
    """The name of the ConfigMap whose data has that digest."""
    return f"{RUNNER_PREFIX}{digest[:10]}"
