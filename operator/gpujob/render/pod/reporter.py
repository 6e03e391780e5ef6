"""The runner's part in the training container: its mounts, and the variables by which Python starts the reporter."""

from __future__ import annotations

from typing import Final

from gpujob.fleet.kubernetes.host_ports import report_port
from gpujob.render.attempt import Attempt, Manifest
from gpujob.render.pod.folders import volume_name
from gpujob.render.runner import FOLDER, NOTES, NOTES_SIZE, ON_PATH, REPORT_PORT
from gpujob.values.vocabulary import TELEMETRY_PORT

PYTHONPATH: Final = "PYTHONPATH"
_GIVEN: Final = "GPUJOB_PYTHONPATH"
"""The user's PYTHONPATH if it comes from a reference: a value can be joined to a variable only."""


def volumes(attempt: Attempt) -> list[Manifest]:
    """The runner's files, and the folder for notes."""
    if attempt.runner is None or not attempt.reports:
        return []
    notes = {"name": volume_name("notes", attempt.spec), "emptyDir": {"sizeLimit": NOTES_SIZE}}
    return [attempt.runner.volume(volume_name("runner", attempt.spec)), notes]


def mounts(attempt: Attempt) -> list[Manifest]:
    """Their mounts."""
    if not attempt.reports:
        return []
    files = {"name": volume_name("runner", attempt.spec), "mountPath": FOLDER, "readOnly": True}
    return [files, {"name": volume_name("notes", attempt.spec), "mountPath": NOTES}]


def ports(attempt: Attempt) -> list[Manifest]:
    """The port of the reporter, under the name that monitors and the operator use.

    On the host's network it is not declared: the scheduler would give it to one pod of a node, and leave the next one Pending on
    the node that it is pinned to.
    """
    if not attempt.reports or attempt.on_host_network:
        return []
    return [{"name": TELEMETRY_PORT, "containerPort": _port(attempt), "protocol": "TCP"}]


def with_reporter(attempt: Attempt, variables: list[Manifest]) -> list[Manifest]:
    """The program's variables and the reporter's; the operator's folder comes before the user's own PYTHONPATH."""
    if not attempt.reports:
        return variables
    named = {str(entry["name"]) for entry in variables}
    settings = [entry for entry in _settings(attempt) if entry["name"] not in named]
    if PYTHONPATH not in named:
        return [*settings, *variables, {"name": PYTHONPATH, "value": ON_PATH}]
    return [
        *settings,
        *(out for entry in variables for out in (_joined(entry) if entry["name"] == PYTHONPATH else [entry])),
    ]


def _settings(attempt: Attempt) -> list[Manifest]:
    telemetry = attempt.spec.telemetry
    numbers = {
        # Without it there is no reporter, and the lines of gpujob_report do nothing.
        "GPUJOB_REPORT_PORT": _port(attempt),
        # With GPUJOB_ATTEMPT it identifies the owner of the report.
        "GPUJOB_JOB_UID": attempt.uid or None,
        "GPUJOB_SAMPLES_PER_STEP": telemetry and telemetry.samples_per_step,
        "GPUJOB_TOKENS_PER_STEP": telemetry and telemetry.tokens_per_step,
        "GPUJOB_PHASE_SECONDS": attempt.spec.stall and attempt.spec.stall.phase_seconds,
    }
    settings: list[Manifest] = [{"name": name, "value": str(n)} for name, n in numbers.items() if n is not None]
    return [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}, *settings]


def _port(attempt: Attempt) -> int:
    if attempt.on_host_network:
        return report_port(attempt.name)
    telemetry = attempt.spec.telemetry
    return (telemetry and telemetry.port) or REPORT_PORT


def _joined(own: Manifest) -> list[Manifest]:
    """The operator's folder before the user's; an empty value is left out, because Python treats an empty part as the current
    folder.
    """
    if "valueFrom" in own:
        return [own | {"name": _GIVEN}, {"name": PYTHONPATH, "value": f"{ON_PATH}:$({_GIVEN})"}]
    return [{"name": PYTHONPATH, "value": f"{ON_PATH}:{own['value']}" if own.get("value") else ON_PATH}]
