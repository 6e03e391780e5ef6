"""Where the reporter touches torch: a hook after each optimizer step, and an inspection of what the DataLoader yields.

Both run in the program's own thread and let no exception out. The hook is registered with torch's own global registry, so
compiled, fused, sharded and third-party optimizers that inherit from torch's are all seen.
"""

from __future__ import annotations

import contextlib
import sys
import time
from functools import wraps
from typing import Any, Callable

from gpujob_runner.report import guard, process
from gpujob_runner.report.rank import RING, Rank
from gpujob_runner.report.readings.batches import kept, size_of
from gpujob_runner.report.readings.mailbox import ROOM, Mailbox

SECONDS_BETWEEN_LETTERS = 0.5
SECONDS_BETWEEN_READS = 0.1

_handle: Any | None = None
_inside_engine = False


class Verdicts:
    """Steps of a process whose fate only the device knows: GradScaler hands a fused optimizer its verdict as a tensor there."""

    def __init__(self, rank: Rank) -> None:
        self._rank = rank
        self._verdicts: list[Any] = []
        self._mailbox = Mailbox(sys.modules["torch"])
        self._sent = 0.0
        self._looked = 0.0

    def hold(self, verdict: Any) -> None:
        """Keeps the verdict of a step just counted as held; from time to time sends some, and releases those that arrived."""
        self._verdicts.append(verdict)
        clock = time.perf_counter()
        if (len(self._verdicts) >= ROOM or clock - self._sent >= SECONDS_BETWEEN_LETTERS) and self._mailbox.can_post():
            letter, self._verdicts = self._verdicts[:ROOM], self._verdicts[ROOM:]
            self._sent = clock
            self._mailbox.post(letter)
            self._looked = 0.0
        if clock - self._looked >= SECONDS_BETWEEN_READS:
            self._looked = clock
            for arrived in self._mailbox.collect():
                self._rank.release(len(arrived), sum(1 for number in arrived if number))


def watch_optimizers(module: Any) -> None:
    """Registers the hook; `module` is torch.optim.optimizer, just imported."""
    global _handle
    register = getattr(module, "register_optimizer_step_post_hook", None)
    if register is None:
        guard.say(
            "this torch is older than 2.0 and reports no optimizer steps; add gpujob_report.step() to the program"
        )
        return
    _handle = register(after_step)
    _watch_construction(module.Optimizer)


def _watch_construction(optimizer: Any) -> None:
    """Begins the reporter with the first optimizer: a training that never reaches its first step is seen then."""
    original = optimizer.__init__

    @wraps(original)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        original(self, *args, **kwargs)
        try:
            if process.rank is None:
                process.begin()
        except Exception as error:
            guard.failed("steps", error)

    optimizer.__init__ = __init__


def _hook() -> Callable[[Any, Any, Any], None]:
    # Names of this function, not of the module, and no call that is not needed: after a step's thousands of instructions
    # each function and each global is a miss of the cache, and these are most of what a step pays.
    ledger, clock, attribute, size, ring = process.ledger, time.perf_counter, getattr, size_of, RING

    def after_step(optimizer: Any, args: Any, kwargs: Any) -> None:
        """Counts a step; called by torch after each step of any optimizer."""
        try:
            rank, unseen = process.rank, ledger.unseen
            if (
                rank is None
                or unseen is None
                or unseen[0] != rank.usual
                or rank.only() is not optimizer
                or ledger.pending
                or attribute(optimizer, "found_inf", None) is not None
            ):
                _stepped(optimizer)
                return
            # Nearly every step: the only optimizer, and one batch of the data set that is trained on. As _stepped has it.
            counted = rank.counted
            place = counted % ring
            rank.clocks[place] = clock()
            rank.waits[place] = waited = unseen[2]
            ledger.unseen = None
            rank.steps += 1
            rank.counted = counted + 1
            samples, tokens = size(unseen[1], unseen[0])
            if tokens or rank.samples_from != "dataloader" or rank.tokens_from != "none":
                rank.add((samples, tokens, waited), None, None)
            else:
                rank.samples += samples
                rank.waited += waited
        except Exception as error:
            _failed("steps", error)

    return after_step


after_step = _hook()


def _stepped(optimizer: Any) -> None:
    """Counts a step of any kind."""
    if _inside_engine:
        return
    rank = process.rank or process.begin().rank
    if rank.only() is not optimizer and not rank.begins_step(optimizer):
        return
    if rank.steps_from != "optimizer":
        return
    verdict = getattr(optimizer, "found_inf", None)
    if verdict is None:
        rank.step()
        rank.usual = rank.ledger.usual()
    elif verdict.device.type == "cpu":
        if verdict.item():
            rank.skipped += 1
        else:
            rank.step()
    else:
        rank.step(held=True)
        if rank.verdicts is None:
            rank.verdicts = Verdicts(rank)
        rank.verdicts.hold(verdict)


# Dynamo runs the hook outside of its graphs: a compiled optimizer counts, and no clock is baked into a graph.
after_step._torchdynamo_disable = True  # type: ignore[attr-defined]


def _failed(part: str, error: Exception) -> None:
    global _handle
    guard.failed(part, error)
    if guard.is_off(part) and _handle is not None:
        handle, _handle = _handle, None
        with contextlib.suppress(Exception):
            handle.remove()


def watch_batches(module: Any) -> None:
    """Inspects what each DataLoader yields; `module` is torch.utils.data.dataloader, just imported."""
    iterator = module._BaseDataLoaderIter
    original = iterator.__next__
    # Names of this function, not of the module: here, where a device waits, the nearest is the fastest.
    gradients, clock, identity = sys.modules["torch"].is_grad_enabled, time.perf_counter, id
    keep, ledger, kind, tensor = kept, process.ledger, type, getattr(sys.modules["torch"], "Tensor", None)

    def __next__(self: Any) -> Any:  # noqa: N807
        began = clock()
        try:
            batch = original(self)
        except StopIteration:
            _ended(self)
            raise
        try:
            ledger.batch_at = now = clock()
            waited = now - began
            if gradients():
                if ledger.unseen is not None:
                    ledger.inspect()
                # Nearly every batch is a list of tensors: as `kept` has it, without a call.
                copy = batch.copy() if kind(batch) is list and batch and kind(batch[0]) is tensor else keep(batch)
                data_set = self._dataset
                ledger.unseen = (identity(data_set), copy, waited, data_set)
        except Exception as error:
            guard.failed("batches", error)
        return batch

    __next__.__wrapped__ = original  # type: ignore[attr-defined]
    iterator.__next__ = __next__


def _ended(iterator: Any) -> None:
    try:
        process.ledger.ended(id(iterator._dataset))
    except Exception as error:
        guard.failed("batches", error)


def watch_deepspeed(module: Any) -> None:
    """Counts the steps of a DeepSpeed engine by the engine's own counters; `module` is deepspeed.runtime.engine.

    The engine steps its inner optimizer once for each group of parameters, which the hook alone would count each.
    """
    engine = module.DeepSpeedEngine
    original = engine._take_model_step

    def _take_model_step(self: Any, *args: Any, **kwargs: Any) -> Any:
        global _inside_engine
        before = _steps_of(self)
        _inside_engine = True
        if process.rank is not None:
            process.rank.usual = None
        try:
            return original(self, *args, **kwargs)
        finally:
            _inside_engine = False
            _engine_stepped(before, _steps_of(self))

    _take_model_step.__wrapped__ = original  # type: ignore[attr-defined]
    engine._take_model_step = _take_model_step


def _steps_of(engine: Any) -> Any:
    return getattr(engine, "global_steps", None), getattr(engine, "skipped_steps", None)


def _engine_stepped(before: Any, after: Any) -> None:
    try:
        rank = process.rank or process.begin().rank
        if rank.steps_from == "line":
            return
        rank.count_by("deepspeed")
        skipped = after[1] - before[1]
        rank.skipped += skipped
        if after[0] - before[0] - skipped > 0:
            rank.step()
    except Exception as error:
        guard.failed("deepspeed", error)
