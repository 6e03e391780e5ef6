"""A rank of torchrun that saves for a given number of seconds on SIGTERM; `ready` and `saved` are files."""

import signal
import sys
import time
from pathlib import Path

folder, seconds = Path(sys.argv[1]), float(sys.argv[2])


def saves(*_: object) -> None:
    time.sleep(seconds)
    (folder / "saved").touch()
    sys.exit(0)


signal.signal(signal.SIGTERM, saves)
(folder / "ready").touch()
time.sleep(600)
