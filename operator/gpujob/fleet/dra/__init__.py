"""Devices that DRA drivers offer: resource slices, taints, inventory, claim requests."""
