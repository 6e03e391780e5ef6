"""Loops of one process, one after another; prints as JSON what each added to the figures of its reporter."""

import gc
import json
import os
import signal
import sys
import warnings

import torch
from scraping import info, page
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
warnings.filterwarnings("ignore")
RESULTS: dict[str, object] = {}
DATA = TensorDataset(torch.randn(80, 4), torch.randn(80, 1))


def loader(samples: int = 80, **options: object) -> DataLoader:
    return DataLoader(TensorDataset(*(tensor[:samples] for tensor in DATA.tensors)), batch_size=8, **options)


def counts() -> dict[str, float]:
    figures = page()
    return {
        short: figures.get(f'gpujob_{short}_total{{rank="0"}}', 0.0)
        for short in ("steps", "skipped_steps", "samples", "tokens")
    }


def told(name: str, loop) -> None:
    gc.collect()
    before = counts()
    loop()
    after = counts()
    RESULTS[name] = {key: after[key] - before[key] for key in after if after[key] != before[key]}


def a_model() -> torch.nn.Module:
    return torch.nn.Linear(4, 1)


def loss_of(model, batch) -> torch.Tensor:
    return ((model(batch[0]) - batch[1]) ** 2).mean()


def plain(
    optimizer=lambda model: torch.optim.SGD(model.parameters(), lr=0.01), every=1, batches=None, wrap=lambda step: step
):
    def loop() -> None:
        model = a_model()
        stepper = optimizer(model)
        step = wrap(stepper.step)
        for number, batch in enumerate(batches or loader(), 1):
            loss_of(model, batch).backward()
            if number % every == 0:
                step()
                stepper.zero_grad()

    return loop


def gan() -> None:
    discriminator, generator = a_model(), torch.nn.Linear(2, 4)
    first = torch.optim.Adam(discriminator.parameters())
    second = torch.optim.Adam(generator.parameters())
    for batch in loader():
        discriminator(batch[0]).mean().backward()
        first.step()
        discriminator(generator(torch.randn(8, 2))).mean().backward()
        second.step()


def scaled(fused: bool):
    def loop() -> None:
        model = a_model()
        optimizer = torch.optim.AdamW(model.parameters(), fused=fused)
        scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
        for number, batch in enumerate(loader()):
            optimizer.zero_grad()
            loss = loss_of(model, batch) * (float("inf") if number in (2, 5, 6) else 1.0)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()

    return loop


def lbfgs() -> None:
    model = a_model()
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=6)
    for batch in loader(40):

        def closure(batch=batch) -> torch.Tensor:
            optimizer.zero_grad()
            loss = loss_of(model, batch)
            loss.backward()
            return loss

        optimizer.step(closure)


def evaluated() -> None:
    model = a_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    training, checking, unseen = loader(), loader(24), loader(24)
    for number, batch in enumerate(training):
        loss_of(model, batch).backward()
        optimizer.step()
        if number % 4 == 0:
            with torch.no_grad():
                for other in checking:
                    loss_of(model, other)
            for other in unseen:
                loss_of(model, other)


def one_for_each_parameter() -> None:
    model = a_model()
    optimizers = {parameter: torch.optim.SGD([parameter], lr=0.01) for parameter in model.parameters()}
    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(lambda parameter: optimizers[parameter].step())
    for batch in loader():
        loss_of(model, batch).backward()


class Own(torch.optim.Optimizer):
    """A third party's optimizer: inherits, and knows nothing of hooks."""

    def __init__(self, parameters) -> None:
        super().__init__(parameters, {})

    def step(self, closure=None) -> None:
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.data.add_(parameter.grad, alpha=-0.01)


class Tokens(torch.utils.data.Dataset):
    def __len__(self) -> int:
        return 12

    def __getitem__(self, index):
        return {"labels": torch.zeros(16), "input_ids": torch.zeros(16, dtype=torch.long)}


def tokens() -> None:
    parameter = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([parameter], lr=0.1)
    for batch in DataLoader(Tokens(), batch_size=3):
        (parameter * batch["input_ids"].sum()).sum().backward()
        optimizer.step()


def unusual_tokens() -> None:
    """Batches that are taken apart before the step, and tokens that no single tensor holds."""
    parameter = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([parameter], lr=0.1)
    collated = (
        None,
        lambda samples: {"input_ids": [sample["input_ids"].tolist() for sample in samples]},
        lambda samples: {"input_ids": torch.nested.nested_tensor([sample["input_ids"] for sample in samples])},
        lambda samples: {
            "input_ids": torch.nested.nested_tensor([s["input_ids"] for s in samples], layout=torch.jagged)
        },
        lambda samples: {"input_ids": [sample["input_ids"][: 8 + place] for place, sample in enumerate(samples)]},
    )
    for collate in collated:
        for batch in DataLoader(Tokens(), batch_size=3, collate_fn=collate):
            batch.pop("input_ids")
            parameter.sum().backward()
            optimizer.step()


def packed() -> None:
    parameter = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([parameter], lr=0.1)
    for _ in DataLoader(torch.zeros(12, 5, 3), batch_size=3, collate_fn=torch.nn.utils.rnn.pack_sequence):
        parameter.sum().backward()
        optimizer.step()


def forked_child() -> None:
    """A child that trains after a fork reports for itself, and takes nothing from its parent."""
    child = os.fork()
    if child == 0:
        try:
            plain()()
        finally:
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)


def main() -> None:
    plain()()
    told("plain", plain())
    told("accumulation", plain(every=5))
    told("two optimizers", gan)
    told("scaler", scaled(fused=False))
    told("scaler, fused", scaled(fused=True))
    told("fused", plain(lambda model: torch.optim.AdamW(model.parameters(), fused=True)))
    told("lbfgs", lbfgs)
    told("evaluation", evaluated)
    told("own optimizer", plain(lambda model: Own(model.parameters())))
    told("tokens", tokens)
    told("unusual tokens", unusual_tokens)
    told("packed sequences", packed)
    told("workers", plain(batches=loader(num_workers=2)))
    told("forked child", forked_child)
    if "compile" in sys.argv:
        told("compiled model", lambda: compiled(torch.compile(a_model(), backend="aot_eager")))
        told("compiled step", plain(wrap=lambda step: torch.compile(step, backend="aot_eager")))
    # The last one: what its hooks hold is never freed.
    told("one for each parameter", one_for_each_parameter)
    figures = page()
    RESULTS["info"] = info(figures)
    RESULTS["ranks"] = figures["gpujob_ranks_reporting"]
    RESULTS["on_device"] = figures['gpujob_on_device{rank="0"}']
    RESULTS["wait"] = figures['gpujob_data_wait_seconds_total{rank="0"}']
    RESULTS["failures"] = [name for name in figures if "failures" in name]
    print(json.dumps(RESULTS))


def compiled(model: torch.nn.Module) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for batch in loader():
        loss_of(model, batch).backward()
        optimizer.step()


if __name__ == "__main__":
    main()
