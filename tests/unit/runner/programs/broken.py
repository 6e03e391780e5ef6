"""Trains while one part of the reporter, named by the first argument, raises whenever it is used."""

import sys

import torch
from torch.utils.data import DataLoader, TensorDataset


def raises(*args: object, **kwargs: object) -> None:
    raise RuntimeError("broken on purpose")


def break_part(part: str) -> None:
    from gpujob_runner.report import process, rank
    from gpujob_runner.report.hooks import torch_hooks
    from gpujob_runner.report.readings import batches, ledger

    if part == "clock":
        rank.Rank.step = raises
    elif part == "begin":
        torch_hooks.process.begin = raises
    elif part == "size":
        batches._inspected = batches._inspected_carefully = raises
    elif part == "ledger":
        ledger.Ledger.look = ledger.Ledger.take = ledger.Ledger.ended = raises
    elif part == "memory":
        process.torch_state.Devices.figures = raises
    elif part == "folder":
        process.Shared.write = raises
    elif part == "server":
        process.Server = raises
    elif part == "guard":
        torch_hooks.process.begin = raises
        torch_hooks.guard.say = raises
    elif part == "thread":
        process.threading.Thread.start = raises
    elif part == "stop":
        process.Shared.leave = raises


def main() -> None:
    torch.set_num_threads(1)
    import gpujob_report

    for part in sys.argv[1:]:
        break_part(part)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for (batch,) in DataLoader(TensorDataset(torch.randn(80, 4)), batch_size=8):
        model(batch).mean().backward()
        optimizer.step()
    for number in range(5):
        gpujob_report.step(samples="many", tokens=float("nan"), loss=object())
        gpujob_report.progress("much")
        gpujob_report.checkpoint(number)
    print("trained")


if __name__ == "__main__":
    main()
