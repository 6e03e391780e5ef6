"""Jobs whose pods really run: their images, what they print, and how they end."""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import Any, Final

from tests.e2e.api_server import CONFIG_MAPS, PODS, Object
from tests.e2e.cluster import eventually
from tests.e2e.node import store
from tests.e2e.team import Team

_END_PORT: Final = 4000
_RUNS_ON: Final = (
    f"import socket; s = socket.create_server(('', {_END_PORT})); s.settimeout(600); s.accept(); print('ran')"
)


class Trainers(Team):
    """A namespace on real nodes."""

    def run(self, name: str, *command: str, image: str = store.PYTHON, **spec: Any) -> str:
        """Submits a job with an own image for both backends; gives its uid.

        Its pods ask for little: a node has as many cores as this machine, and all nodes share them.
        """
        spec.setdefault("images", {backend: {"image": image} for backend in ("cuda", "rocm")})
        spec.setdefault("resources", {"cpu": "500m", "memory": "512Mi"})
        # The simulated devices do not compute, and a preflight would say so.
        spec.setdefault("preflight", "Disabled")
        if command:
            spec["command"] = list(command)
        return self.submit(name, **spec)

    def run_on(self, name: str) -> str:
        """Submits a job of one pod that runs until `end`, and waits until it runs; gives its uid."""
        uid = self.run(name, "python3", "-c", _RUNS_ON)
        self.until(name, "Running", timeout=60)
        return uid

    def end(self, uid: str) -> None:
        """Lets the program of `run_on` print `ran` and end; it must still run."""
        (pod,) = self.pods(uid)
        assert pod["status"]["phase"] == "Running"

        def accepted() -> bool:
            with suppress(OSError), socket.create_connection((pod["status"]["podIP"], _END_PORT), timeout=5):
                return True
            return False

        eventually(accepted, what="a program that listens")

    def give_code(self, name: str, **files: str) -> None:
        """Creates a ConfigMap; `train` becomes train.py."""
        data = {f"{module}.py": text for module, text in files.items()}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}
        self.api.create(CONFIG_MAPS.format(self.namespace), body)

    def clear(self, timeout: float = 90) -> None:
        """Also deletes pods that no job made."""
        self.api.delete(PODS.format(self.namespace))
        super().clear(timeout)

    def printed(self, pod: Object, container: str = "train") -> str:
        """What a pod's container has printed so far."""
        name = pod["metadata"]["name"]
        done = self.api.kubectl("logs", name, f"--namespace={self.namespace}", f"--container={container}")
        return done.stdout + done.stderr

    def result(self, name: str, uid: str, timeout: float = 60) -> tuple[str, list[str]]:
        """The state in which a job ended, and what its pods printed, in the order of their ranks."""
        state = str(self.until(name, "Succeeded", "Failed", timeout=timeout)["state"])
        index = "batch.kubernetes.io/job-completion-index"
        pods = sorted(self.pods(uid), key=lambda pod: int(pod["metadata"]["annotations"][index]))
        return state, [self.printed(pod) for pod in pods]
