"""What may become of one write of the operator, by name; each a function of the world and the number of the write."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from gpujob.cluster.client.api_errors import ApiError, OutcomeUnknown, Unreachable
from tests.simulation.api_server import Object
from tests.simulation.operator_process import Call, OperatorProcess
from tests.simulation.world import World

Plan = Callable[[World, int], None]
LATE: Final = 35.0
RESTART: Final = 1.0


def _unknown() -> OutcomeUnknown:
    return OutcomeUnknown(0, "Timeout", "no answer")


async def _lost_before(process: OperatorProcess, call: Call) -> Object:
    raise Unreachable(0, "Refused", "no connection")


async def _never_arrived(process: OperatorProcess, call: Call) -> Object:
    raise _unknown()


async def _reply_lost(process: OperatorProcess, call: Call) -> Object:
    call()
    raise _unknown()


async def _doubled(process: OperatorProcess, call: Call) -> Object:
    answer = call()
    process.loop.call_later(0.3, _again, call)
    return answer


async def _late(process: OperatorProcess, call: Call) -> Object:
    process.loop.call_later(LATE, _again, call)
    raise _unknown()


async def _server_error(process: OperatorProcess, call: Call) -> Object:
    raise ApiError(500, "InternalError", "etcdserver: request timed out")


def _again(call: Call) -> None:
    try:
        call()
    except ApiError:
        return


def _write(fault: Callable[[OperatorProcess, Call], object]) -> Plan:
    def plan(world: World, number: int) -> None:
        world.processes[0].faults[number] = fault  # type: ignore[assignment]

    return plan


def _replace(world: World) -> None:
    world.processes[0].kill()
    world.server.loop.call_later(RESTART, world.start)


def _killed(*, before: bool, late: bool = False) -> Plan:
    def plan(world: World, number: int) -> None:
        async def fault(process: OperatorProcess, call: Call) -> Object:
            if late:
                process.loop.call_later(LATE, _again, call)
            elif not before:
                _again(call)
            _replace(world)
            await asyncio.sleep(3600)
            raise _unknown()

        world.processes[0].faults[number] = fault

    return plan


def _frozen_watch(world: World, number: int) -> None:
    async def fault(process: OperatorProcess, call: Call) -> Object:
        process.frozen_until = process.loop.time() + 65
        return call()

    world.processes[0].faults[number] = fault


def _stale_watch(world: World, number: int) -> None:
    async def fault(process: OperatorProcess, call: Call) -> Object:
        process.frozen_until = process.loop.time() + 8
        return call()

    world.processes[0].faults[number] = fault


def _two_leaders(world: World, number: int) -> None:
    """From this write on another process leads too, while the first sees nothing any more and writes for 10 s."""

    async def fault(process: OperatorProcess, call: Call) -> Object:
        process.frozen_until = process.loop.time() + 1000
        world.start()
        process.loop.call_later(10, process.kill)
        return call()

    world.processes[0].faults[number] = fault


def _jump(seconds: float) -> Plan:
    def plan(world: World, number: int) -> None:
        async def fault(process: OperatorProcess, call: Call) -> Object:
            process.skew += seconds
            return call()

        world.processes[0].faults[number] = fault

    return plan


PLANS: Final[dict[str, Plan]] = {
    "lost before it arrived": _write(_lost_before),
    "never arrived, which is not known": _write(_never_arrived),
    "the reply lost": _write(_reply_lost),
    "doubled": _write(_doubled),
    "arrived 35 s late": _write(_late),
    "answered with 500": _write(_server_error),
    "killed before it": _killed(before=True),
    "killed after it": _killed(before=False),
    "killed, and it arrived 35 s late": _killed(before=True, late=True),
    "the watch 8 s behind": _stale_watch,
    "the watch frozen for 65 s": _frozen_watch,
    "two leaders": _two_leaders,
    "the clock jumps ahead": _jump(3600.0),
    "the clock jumps back": _jump(-3600.0),
}
