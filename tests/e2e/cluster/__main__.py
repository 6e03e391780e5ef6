"""`python -m tests.e2e.cluster up|down|status|env|nodes|build`: what `make cluster-up` and its kin call."""

import argparse
import json
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from . import binaries, choice
from .nodes import POOLS, default_fleet, node_list, simulated_nodes
from .state import Cluster, ClusterError, load, require
from .state import default_dir as folder


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; 0 when it did what it says."""
    options = _parser().parse_args(arguments)
    try:
        return int(options.run(options))
    except (ClusterError, TimeoutError) as error:
        print(error, file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.e2e.cluster", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="command")
    up = commands.add_parser("up", help="bring the cluster up; says so when it is up already")
    up.add_argument(
        "--nodes", nargs="*", metavar="POOL=COUNT", help="with simulated nodes; without names a small mixed fleet"
    )
    up.set_defaults(run=_up)
    commands.add_parser("down", help="end it and remove its folder").set_defaults(run=_down)
    commands.add_parser("status", help="what runs; ends with 1 when something does not").set_defaults(run=_status)
    commands.add_parser("env", help="print exports of KUBECONFIG and PATH, for eval").set_defaults(run=_env)
    nodes = commands.add_parser("nodes", help="print simulated nodes as a List, for `kubectl create -f -`")
    nodes.add_argument("--pool", action="append", metavar="POOL=COUNT", help=f"pools: {', '.join(POOLS)}")
    nodes.set_defaults(run=_nodes)
    build = commands.add_parser("build", help="build programs into the cache and print their folder")
    build.add_argument("group", nargs="?", choices=sorted(binaries.GROUPS), default="control-plane")
    build.set_defaults(run=_build)
    return parser


def _up(options: argparse.Namespace) -> int:
    fleet = None if options.nodes is None else _fleet(options.nodes)
    began, before = time.monotonic(), load(folder())
    was_up = before is not None and choice.status()[0]
    cluster = choice.up()
    if fleet is not None:
        print(_create(cluster, fleet))
    if was_up:
        print(f"already up: {cluster.kind} cluster in {cluster.dir}")
    else:
        print(f"{cluster.kind} cluster up after {time.monotonic() - began:.1f} s in {cluster.dir}")
    print(f'use it: eval "$({_python()} -m tests.e2e.cluster env)"')
    return 0


def _python() -> str:
    """This interpreter as one types it here: where it is below this folder, from here on."""
    here, program = Path.cwd(), Path(sys.executable)
    return shlex.quote(str(program.relative_to(here) if program.is_relative_to(here) else program))


def _create(cluster: Cluster, fleet: dict[str, int]) -> str:
    """Creates the nodes that are missing, and gives one sentence."""
    if cluster.kind == "existing" and cluster.process("kwok") is None:
        raise ClusterError("simulated nodes in your own cluster need KWOK: set CLUSTER_KWOK=1")
    listed = json.dumps(node_list(simulated_nodes(fleet)))
    apply = [cluster.tool("kubectl"), "apply", "--server-side", "-f", "-"]
    done = subprocess.run(apply, input=listed, capture_output=True, text=True, check=False, env=cluster.environment())
    if done.returncode:
        raise ClusterError(f"the simulated nodes were refused: {done.stderr.strip()}")
    return f"simulated nodes: {', '.join(f'{count} {pool}' for pool, count in fleet.items())}"


def _fleet(words: Sequence[str]) -> dict[str, int]:
    """`mi300x=2` and so on as a mapping; a small mixed fleet where nothing is named."""
    fleet: dict[str, int] = {}
    for word in words:
        pool, _, count = word.partition("=")
        if pool not in POOLS or not count.isdecimal():
            raise ClusterError(f"{word}: write POOL=COUNT with a pool of {', '.join(POOLS)}")
        fleet[pool] = int(count)
    return fleet or default_fleet()


def _down(options: argparse.Namespace) -> int:
    began = time.monotonic()
    ended = choice.down()
    print(f"ended after {time.monotonic() - began:.1f} s" if ended else f"no cluster in {folder()}")
    return 0


def _status(options: argparse.Namespace) -> int:
    healthy, lines = choice.status()
    print(lines)
    return 0 if healthy else 1


def _env(options: argparse.Namespace) -> int:
    cluster = require()
    print(f"export KUBECONFIG={shlex.quote(str(cluster.kubeconfig))}")
    if cluster.bin_dir is not None:
        print(f'export PATH={shlex.quote(str(cluster.bin_dir))}:"$PATH"')
    return 0


def _nodes(options: argparse.Namespace) -> int:
    json.dump(node_list(simulated_nodes(_fleet(options.pool or []))), sys.stdout, indent=1)
    print()
    return 0


def _build(options: argparse.Namespace) -> int:
    print(binaries.build(*binaries.GROUPS[options.group]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
