"""The Lease: leader election and the fence before writes."""
