"""Speed and cost: one Prometheus collector that is a view of a snapshot.

Reading order: `collector` (every series), `durations` (histograms), `exposition` (a job's report, parsed), `window` (speed over
the last minutes).
"""
