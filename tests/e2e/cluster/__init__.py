"""A Kubernetes for everyone: brings a cluster up for tests, demos and benchmarks, and takes it down again.

`make cluster-up` and the e2e fixtures call this package; it needs Python >= 3.11 and PyYAML, nothing of the operator.
`up` takes, in this order, what the user names (CLUSTER=existing), kind where a Docker engine answers, and otherwise
the real Kubernetes binaries, built from Go modules. KWOK simulates the nodes in each of them.

Reading order:

    choice                           which cluster, up, down, status: the door to all others
    existing, kind, control_plane    the three ways to one
    kwok, nodes                      simulated nodes, and the program that answers for them (stages.yaml)
    binaries, toolchain              building with Go, kept in the user's cache folder
    state, processes, locks          what was started, under CLUSTER_DIR; only that is ended
    credentials, audit               tokens, keys and kubeconfigs; the log of the operator's requests
    garbage                          the garbage collector, which hears late of new kinds
    probe, eventually                asking, waiting, looking on
"""

from .choice import down, status, up
from .control_plane import restart_component, signal_component, start_component, stop_component
from .eventually import eventually, remains
from .garbage import look_for_kinds, until_collected
from .nodes import default_fleet, node_list, simulated_nodes
from .state import Cluster, default_dir, register_client

__all__ = [
    "Cluster",
    "default_dir",
    "default_fleet",
    "down",
    "eventually",
    "look_for_kinds",
    "node_list",
    "register_client",
    "remains",
    "restart_component",
    "signal_component",
    "simulated_nodes",
    "start_component",
    "status",
    "stop_component",
    "until_collected",
    "up",
]
