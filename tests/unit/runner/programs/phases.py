"""A training whose compilations, evaluations and saves last longer than its bound; the order is drawn from a seed.

Arguments: the seed, the seconds of the bound, and `hang` where a hang follows, or `hang in a save` where that is one.
"""

import random
import sys
import time

import gpujob_report
import torch
from torch._dynamo import convert_frame
from torch.optim.optimizer import Optimizer
from torch.serialization import save
from torch.utils.data.dataloader import _BaseDataLoaderIter

drawn, bound = random.Random(int(sys.argv[1])), float(sys.argv[2])
optimizer = Optimizer()


def steps(number: int) -> None:
    for _ in _BaseDataLoaderIter([[0]] * number):
        optimizer.step()
        time.sleep(0.02)


def evaluates_batches(seconds: float) -> None:
    torch.grad = False
    for _ in _BaseDataLoaderIter([[0]] * int(seconds / 0.5)):
        time.sleep(0.5)
    torch.grad = True


def says(phase: str, seconds: float) -> None:
    with getattr(gpujob_report, phase)():
        time.sleep(seconds)


PHASES = {
    "compiles": convert_frame.compile_one,
    "saves": save,
    "evaluates batches": evaluates_batches,
    "says that it evaluates": lambda seconds: says("evaluating", seconds),
    "says that it compiles": lambda seconds: says("compiling", seconds),
    "says that it saves": lambda seconds: says("saving", seconds),
}


def wait_for_the_slow_rank() -> None:
    time.sleep(600)


if drawn.random() < 0.5:
    convert_frame.compile_one(bound * 1.2)
steps(30)
for phase in drawn.sample(sorted(PHASES), 2):
    print(phase, flush=True)
    PHASES[phase](bound * drawn.uniform(1.2, 1.6))
    steps(30)
if "hang" in sys.argv:
    print("hangs", flush=True)
    wait_for_the_slow_rank()
if "hang in a save" in sys.argv:
    print("hangs", flush=True)
    with gpujob_report.saving():
        save(600)
print("done", flush=True)
