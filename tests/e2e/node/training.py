"""Jobs whose pods really run: their images, what they print, and how they end."""

from __future__ import annotations

from typing import Any

from tests.e2e.api_server import CONFIG_MAPS, PODS, Object
from tests.e2e.node import store
from tests.e2e.team import Team


class Trainers(Team):
    """A namespace on real nodes."""

    def run(self, name: str, *command: str, image: str = store.PYTHON, **spec: Any) -> str:
        """Submits a job with an own image for both backends; gives its uid.

        Its pods ask for little: a node has as many cores as this machine, and all nodes share them.
        """
        spec.setdefault("images", {backend: {"image": image} for backend in ("cuda", "rocm")})
        spec.setdefault("resources", {"cpu": "500m", "memory": "512Mi"})
        # The pretended devices do not compute, and a preflight would say so.
        spec.setdefault("preflight", "Disabled")
        if command:
            spec["command"] = list(command)
        return self.submit(name, **spec)

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
