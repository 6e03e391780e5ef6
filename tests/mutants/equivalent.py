"""Changes that no test can notice since nothing changes: by module of gpujob, text of the line, what is there and what becomes of it.

`make mutants` leaves them out. Each has the reason; where simpler code has no such place, the code is changed instead.
"""

from __future__ import annotations

from typing import Final

EQUIVALENT: Final[dict[tuple[str, str, str, str], str]] = {
    (
        "cluster/queue/due_times.py",
        "if len(self._heap) > 2 * len(self._at) + SLACK:",
        ">",
        ">=",
    ): "the heap of the same times is made again one entry earlier",
    (
        "cluster/client/kubeconfig.py",
        "return True",
        "True",
        "False",
    ): "aiohttp reads it for https alone",
    (
        "fleet/kubernetes/quantities.py",
        "if isinstance(value, str) and len(value) <= USUAL_LENGTH:",
        "<=",
        "<",
    ): "a text that is as long as usual is parsed to the same number, and only not remembered",
}
