"""`python -m tests.torch_tree`: builds the tree where it is missing and prints its folder; `make torch` calls it."""

import sys

from tests.e2e.cluster.state import ClusterError

from .build import path

if __name__ == "__main__":
    try:
        print(path())
    except ClusterError as error:
        sys.exit(str(error))
