"""`python -m tests.e2e.brisk_operator`: the operator of most end-to-end tests. It pauses for less time before it acts, for what is
tested is that it acts; its Lease, its watches and all other times are those of `python -m gpujob.cluster`.
"""

from __future__ import annotations

import sys
from functools import partial

from gpujob.cluster.__main__ import main
from gpujob.cluster.app.app import Operator
from gpujob.cluster.controller import pools
from gpujob.lifecycle.timings import Timings

TIMINGS = Timings(retry_first=4.0, device_fault=5.0, orphans=2.0, stall_confirmed=4.0)
"""A status of Restarting lasts for `retry_first`, which tests have to see."""
POOLS_EVERY = 4.0


def publish_often() -> None:
    """GPUPools show after this many seconds what is taken."""
    assert pools.EVERY > POOLS_EVERY
    pools.EVERY = POOLS_EVERY  # type: ignore[misc]


if __name__ == "__main__":
    publish_often()
    sys.exit(main(sys.argv[1:], partial(Operator, timings=TIMINGS)))
