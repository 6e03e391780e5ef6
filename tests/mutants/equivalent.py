"""Changes that no test can notice since nothing changes: by module of gpujob, text of the line, what is there and what becomes of it.

`make mutants` leaves them out. Each has the reason; where simpler code has no such place, the code is changed instead.
"""

from __future__ import annotations

from typing import Final

EQUIVALENT: Final[dict[tuple[str, str, str, str], str]] = {
    (
        "schedule/queue.py",
        "taking = Taking(hold.pool.resource, hold.on, hold.needs + hold.pool.overhead, linked=hold.nodes > 1)",
        ">",
        ">=",
    ): "all free devices of the one node are reserved, so that no pod of a gang comes to its links",
    (
        "fleet/kubernetes/quantities.py",
        "if isinstance(value, str) and len(value) <= USUAL_LENGTH:",
        "<=",
        "<",
    ): "a text that is as long as usual is parsed to the same number, and only not remembered",
}
