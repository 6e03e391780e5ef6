"""PyTorch trains across pods of two nodes: the rendezvous, the names in DNS and the spread are all the operator's."""

from __future__ import annotations

import json
import re

import pytest

from tests.e2e.node import store
from tests.e2e.node.machine import DOMAIN
from tests.e2e.node.training import Trainers
from tests.e2e.operator_process import OperatorProcess

pytestmark = [pytest.mark.e2e, pytest.mark.node]

TRAIN = """
import json, os
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
truth = torch.randn(16, 1)
model = DistributedDataParallel(torch.nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
mine = torch.Generator().manual_seed(rank)
losses = []
for step in range(30):
    batch = torch.randn(32, 16, generator=mine)
    loss = torch.nn.functional.mse_loss(model(batch), batch @ truth)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
total = sum(parameter.sum() for parameter in model.parameters()).detach()
alike = [torch.zeros_like(total) for _ in range(world)]
dist.all_gather(alike, total)
print(json.dumps({"rank": rank, "world": world, "local": int(os.environ["LOCAL_RANK"]), "first": losses[0],
                  "last": losses[-1], "alike": all(torch.equal(each, total) for each in alike)}) + "\\n", end="")
dist.destroy_process_group()
"""

MEET = """
import os, socket, time
master, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
me = socket.gethostbyname(socket.gethostname())
if os.environ["NODE_RANK"] == "0":
    server = socket.create_server(("", port))
    other = server.accept()[0]
    print(me, other.getpeername()[0])
else:
    for attempt in range(300):
        try:
            other = socket.create_connection((master, port), timeout=5)
            break
        except OSError:
            time.sleep(0.1)
    print(me, other.getpeername()[0], master, socket.getfqdn(master))
other.close()
"""
"""Pod 0 waits for the other, which looks it up by name; both print their own address and the one they met."""


def test_two_pods_of_two_processes_on_two_nodes_learn_as_one(operator: OperatorProcess, team: Trainers) -> None:
    team.give_code("code", train=TRAIN)
    uid = team.run(
        "gang", "torchrun", "train.py",
        image=store.TORCH, code={"configMap": {"name": "code"}}, nodes=2, gpusPerNode=2,
        resources={"cpu": "1800m", "memory": "2Gi"},
    )  # fmt: skip
    state, printed = team.result("gang", uid, timeout=120)
    assert state == "Succeeded", printed

    assert {pod["spec"]["nodeName"] for pod in team.pods(uid)} == {"amd-0", "amd-1"}
    ranks = [[json.loads(line) for line in text.splitlines() if line.startswith("{")] for text in printed]
    assert [sorted(each["rank"] for each in pod) for pod in ranks] == [[0, 1], [2, 3]]
    for each in (*ranks[0], *ranks[1]):
        assert each["world"] == 4
        assert each["local"] == each["rank"] % 2
        assert each["last"] < each["first"] / 10
        assert each["alike"]


def test_the_pods_find_each_other_whatever_the_cluster_calls_its_domain(
    operator: OperatorProcess, team: Trainers
) -> None:
    uid = team.run("names", "python3", "-c", MEET, nodes=2)
    state, printed = team.result("names", uid)
    assert state == "Succeeded", printed
    first, second = (text.split() for text in printed)
    assert first == [second[1], second[0]]
    master, full = second[2:]
    assert re.fullmatch(rf"names-\w+-1-0\.names-\w+-1\.{team.namespace}\.svc", master)
    assert full == f"{master}.{DOMAIN}"


def test_two_gangs_share_the_nodes_and_never_one_node_for_two_pods_of_one(
    operator: OperatorProcess, team: Trainers
) -> None:
    uids = {name: team.run(name, "python3", "-c", "pass", nodes=2) for name in ("one", "two")}
    for name, uid in uids.items():
        state, _ = team.result(name, uid)
        assert state == "Succeeded"
        assert {pod["spec"]["nodeName"] for pod in team.pods(uid)} == {"amd-0", "amd-1"}
