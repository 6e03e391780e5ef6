"""One sentence for each finding of a preflight, with its numbers and the remedy; docs/preflight.md has the details.

The numbers come from inside the user's container: values of the wrong type read as unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from gpujob.values.finding import counted, listed
from gpujob.values.quantity import format_bytes, format_need
from gpujob.values.untrusted import one_line, tables
from gpujob.values.vocabulary import Reason

Numbers = Mapping[str, Any]
LARGEST: Final = 1 << 60


def _text(numbers: Numbers, key: str, most: int = 120) -> str:
    value = numbers.get(key)
    return one_line(value)[:most].replace("�", "?") if isinstance(value, str) and value else "?"


def _number(numbers: Numbers, key: str) -> int | None:
    value = numbers.get(key)
    good = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < LARGEST
    return value if good else None


def _count(numbers: Numbers, key: str) -> str:
    value = _number(numbers, key)
    return "?" if value is None else str(value)


def _size(numbers: Numbers, key: str) -> str:
    value = _number(numbers, key)
    return "?" if value is None else format_bytes(value)


def _wanted(numbers: Numbers) -> str:
    value = _number(numbers, "wanted")
    return "?" if value is None else format_need(value)


def _device(numbers: Numbers) -> str:
    name = f" ({_text(numbers, 'name', 64)})" if numbers.get("name") else ""
    return f"GPU {_count(numbers, 'device')}{name}"


def _groups(numbers: Numbers) -> str:
    value = numbers.get("groups")
    known = value[:16] if isinstance(value, list) else []
    return listed([g for g in known if isinstance(g, int) and not isinstance(g, bool) and 0 <= g < 1 << 32])


def _backend_mismatch(numbers: Numbers) -> str:
    wanted = _text(numbers, "wanted", 16)
    return (
        f"the image's torch {_text(numbers, 'torch', 48)} is built for {_text(numbers, 'found', 32)}, the chosen devices need "
        f"{wanted}; name an image with a {wanted} build of torch in spec.images"
    )


def _command_not_found(numbers: Numbers) -> str:
    return (
        f"the command starts {_text(numbers, 'program')}, which is not in the image or may not be executed (PATH is "
        f"{_text(numbers, 'path', 200)}); correct spec.command, or name an image that has it"
    )


def _permission(numbers: Numbers) -> str:
    path, group = _text(numbers, "path"), _count(numbers, "group")
    if numbers.get("error") == "EPERM":
        return f"{path} is there and the container's device rules do not let it open; devices come from the device plugin alone"
    return (
        f"{path} belongs to group {group} with mode {_text(numbers, 'mode', 8)}, and uid {_count(numbers, 'uid')} is in "
        f"{_groups(numbers)}; an admin adds {group} to spec.supplementalGroups of the GPUPool"
    )


def _count_mismatch(numbers: Numbers) -> str:
    seen, wanted = _number(numbers, "seen"), _number(numbers, "wanted")
    expected = "?" if wanted is None else counted(wanted, "GPU")
    variable = numbers.get("variable")
    if isinstance(variable, str):
        return f"torch sees {_count(numbers, 'seen')} of {expected} because of {_text(numbers, 'variable', 32)}; remove it from env"
    if numbers.get("nodes") is True:
        return (
            f"the container has the device nodes of {_count(numbers, 'seen')} of {expected}: the node's device plugin or "
            "container runtime passes no more; check its device plugin, or set spec.runtimeClassName in the GPUPool"
        )
    why = f" ({_text(numbers, 'error', 200)})" if numbers.get("error") else ""
    if seen is not None and wanted is not None and seen > wanted:
        return f"torch sees {seen} GPUs where {wanted} were given: the node shows devices of others; check its device plugin"
    return f"torch sees {_count(numbers, 'seen')} of {expected}{why}; check the node's driver and device plugin"


def _unusable(numbers: Numbers) -> str:
    error = _text(numbers, "error", 240)
    if _number(numbers, "device") is None:
        return f"torch can use none of {_count(numbers, 'wanted')} GPUs whose device nodes are open: {error}; check the node's driver"
    return f"{_device(numbers)} does not compute: {error}; cordon the node and check the device"


def _memory(numbers: Numbers) -> str:
    total, wanted = _number(numbers, "total"), _number(numbers, "wanted")
    has = f"{_device(numbers)} has {_size(numbers, 'free')} of {_size(numbers, 'total')} free, {_wanted(numbers)} are requested"
    if total is not None and wanted is not None and total < wanted:
        return f"{has}: it is smaller than its node's labels report; declare spec.memoryPerGPU in the GPUPool"
    if numbers.get("shared") is True:
        return f"{has}: other pods share the device; leave Shared out of placement.devices, or lower gpuMemory"
    return f"{has}: something else uses the rest; check the node's processes, or lower gpuMemory"


def _shared_memory(numbers: Numbers) -> str:
    return (
        f"/dev/shm has {_size(numbers, 'size')}, {_wanted(numbers)} were expected; lower resources.sharedMemory, or "
        "raise the memory that the node gives a pod"
    )


def _folder(numbers: Numbers) -> str:
    mode, owner, group = _text(numbers, "mode", 8), _count(numbers, "owner"), _count(numbers, "group")
    whose = f"{owner}:{group}, mode {mode}" if _number(numbers, "owner") is not None else "unknown owner"
    path, error = _text(numbers, "path", 200), _text(numbers, "error", 16)
    also = ", or readOnly: true in its volumeMount" if numbers.get("mount") is True else ""
    return (
        f"{path} takes no file of uid {_count(numbers, 'uid')} ({whose}, {error}); set fsGroup or runAsUser in "
        f"securityContext{also}"
    )


SENTENCES: Final[Mapping[Reason, Callable[[Numbers], str]]] = {
    Reason.IMAGE_BACKEND_MISMATCH: _backend_mismatch,
    Reason.IMAGE_BROKEN: lambda numbers: (
        f"the image's torch cannot be imported: {_text(numbers, 'error', 240)}; fix the image, or name another in spec.images"
    ),
    Reason.COMMAND_NOT_FOUND: _command_not_found,
    Reason.DEVICE_PERMISSION: _permission,
    Reason.DEVICE_COUNT_MISMATCH: _count_mismatch,
    Reason.DEVICE_UNUSABLE: _unusable,
    Reason.MEM_BELOW_REQUEST: _memory,
    Reason.SHARED_MEMORY_TOO_SMALL: _shared_memory,
    Reason.FOLDER_NOT_WRITABLE: _folder,
    Reason.NO_INTERPRETER: lambda numbers: (
        "the image has no shell, or no Python from 3.9 on: nothing is checked and nothing measured"
    ),
    Reason.PREFLIGHT_TIMED_OUT: lambda numbers: (
        "torch was not imported within 35 seconds, so the devices are not checked; a slow disk or registry does it"
    ),
    Reason.PREFLIGHT_FAULT: lambda numbers: (
        f"the preflight itself failed, so the devices are not checked: {_text(numbers, 'error', 300)}"
    ),
}


def all_well(facts: Numbers) -> str:
    """The facts of a passed preflight."""
    took = facts.get("seconds")
    seconds = f"; checked in {took:.1f} seconds" if isinstance(took, float | int) and 0 <= took < 1e6 else ""
    if not facts.get("torch"):
        return f"torch is not in the image: devices only, {_nodes(facts)}{seconds}"
    devices = [
        f"{_count(device, 'count')} {_text(device, 'name', 48)} with {_size(device, 'free')} free"
        for device in tables(facts, "devices")[:4]
    ]
    torch, backend = _text(facts, "torch", 48), _text(facts, "backend", 32)
    return f"torch {torch} ({backend}) computes on {listed(devices)}{seconds}"


def _nodes(facts: Numbers) -> str:
    number = _number(facts, "nodes")
    return "no device node was counted" if number is None else f"opened the device nodes of {counted(number, 'GPU')}"
