"""Prints the error of the memory estimate for each measurement and for each table: `python -m bench.memory [TABLE...]`."""

from __future__ import annotations

import sys

from bench.memory import errors, rows

GB = 10**9


def main(tables: list[str]) -> None:
    """One line for each row, then one for each table."""
    results = {table: errors.of(rows.read(table)) for table in tables}
    for found in results.values():
        for error in found:
            print(_line(error))
    print(
        f"{'table':14}{'rows':>5}{'median':>8}{'worst':>8}{'≤15 %':>8}{'≤25 %':>8}{'above high':>12}{'high/expected':>15}"
    )
    for table, found in results.items():
        total = errors.summary(found)
        print(
            f"{table:14}{total.rows:5}{total.median:8.1%}{total.worst:8.1%}{total.within_15:8.0%}{total.within_25:8.0%}"
            f"{max(total.above_high, 0.0):12.1%}{total.band:15.3f}"
        )


def _line(error: errors.Error) -> str:
    work, row = error.measured.workload, error.measured
    what = f"{row.id:5}{work.shape.name:24}{work.method:10}{work.precision:6}{work.batch}x{work.sequence:<7}"
    how = f"{work.checkpointing:10}{work.sharding:6}{work.gpus:4}"
    figures = f"{error.estimate.expected / GB:8.2f} expected {error.estimate.high / GB:8.2f} high"
    if not row.fitted:
        return f"{what}{how} did not fit {figures}"
    return f"{what}{how}{row.peak / GB:8.2f} {figures} {error.relative:+7.1%}"


if __name__ == "__main__":
    main(sys.argv[1:] or list(rows.TABLES))
