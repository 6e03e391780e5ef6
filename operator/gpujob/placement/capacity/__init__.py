"""Whether a gang fits the nodes of a pool now: free devices, CPU, memory, topology, queue position."""
