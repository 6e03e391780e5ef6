"""Figures that are read from a training without a change of its code.

Reading order: `batches` (samples and tokens of a batch), `ledger` (which batches were trained on), `mailbox` (numbers that lie on
a device), `torch_state` (what torch knows of itself), `driver_events` (what the driver reports of the devices).
"""
