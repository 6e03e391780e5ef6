"""`python -m tests.e2e.node.impatient_operator`: the operator of most end-to-end tests; a container has half a minute to start."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial

from gpujob.cluster.__main__ import main
from gpujob.cluster.app.app import Operator
from tests.e2e.brisk_operator import TIMINGS, publish_often

STUCK = 30.0

if __name__ == "__main__":
    publish_often()
    impatient = replace(TIMINGS, stuck=STUCK, refused=5.0)
    sys.exit(main(sys.argv[1:], partial(Operator, timings=impatient)))
