"""`python -m tests.e2e.node`: a cluster with real nodes until it is interrupted; `make nodes` calls it."""

import sys

from .cluster import main

if __name__ == "__main__":
    sys.exit(main())
