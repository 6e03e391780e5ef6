"""Two ranks under torchrun: DDP, then FSDP, on gloo. Rank 0 prints as JSON what one scrape of the pod says of both."""

import json
import os

import torch
import torch.distributed as dist
from scraping import page, page_when
from torch.distributed.fsdp import fully_shard
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def train(model: torch.nn.Module, steps: int) -> None:
    data = TensorDataset(torch.randn(steps * 16, 8))
    optimizer = torch.optim.AdamW(model.parameters())
    for (batch,) in DataLoader(data, batch_size=8, sampler=DistributedSampler(data)):
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()


def main() -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    train(torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8)), 5)
    sharded = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 8))
    fully_shard(sharded, mesh=dist.device_mesh.init_device_mesh("cpu", (2,)))
    train(sharded, 4)
    both = page_when(lambda told: all(told.get(f'gpujob_steps_total{{rank="{each}"}}') == 9 for each in (0, 1)))
    dist.barrier()
    if os.environ.get("RANK_THAT_DIES"):
        serving = int(page(os.environ["GPUJOB_REPORT_PORT"]) and _serves())
        outcomes = [torch.zeros(1, dtype=torch.long) for _ in range(2)]
        dist.all_gather(outcomes, torch.tensor([serving]))
        dist.barrier()
        if serving:
            os._exit(0)
        one = page_when(lambda told: told.get("gpujob_ranks_reporting") == 1, os.environ["GPUJOB_REPORT_PORT"])
        print(json.dumps({"both": both, "one": one, "served": [int(o) for o in outcomes]}))
        os._exit(0)
    if rank == 0:
        print(json.dumps({"both": both}))
    dist.destroy_process_group()


def _serves() -> bool:
    from gpujob_runner.report import process

    return process.current is not None and process.current.server is not None


if __name__ == "__main__":
    main()
