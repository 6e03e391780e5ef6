"""`python -m tests.e2e.node up|build`: a cluster with real nodes until it is interrupted, or only what it is made of."""

import sys

from tests.e2e.cluster.state import ClusterError

from . import needs, programs, store
from .cluster import stay_up


def main(words: list[str]) -> int:
    """Runs one command; 0 when it did what it says, or when this machine has no real nodes to build for."""
    try:
        if words == ["up"]:
            stay_up()
        elif words == ["build"]:
            print(needs.missing() or f"{programs.kubernetes()}\n{store.build()}")
        else:
            print(__doc__, file=sys.stderr)
            return 2
    except ClusterError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
