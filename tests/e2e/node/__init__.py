"""Real nodes for tests: kubelet, containerd and device plugins, so that pods really run and see devices or do not.

The control plane is that of tests/e2e/cluster. Each node is a process tree in namespaces of its own (network, mounts,
process ids): its end takes with it every container, mount and address, whatever state it was in. Two nodes have
simulated AMD GPUs and one has NVIDIA's, with device nodes that do nothing; kernel, runtime, cgroups and file modes are
real. It needs root on Linux; needs.missing says what else.

Reading order:

    cluster                     up and down: the door to all others
    slots                       which addresses and folder, so that several clusters can be on one machine
    machine, inside             one node from outside, and its first process, which sets it up from inside
    network, cgroups, devices   what ties a node to this machine, and the devices that it simulates
    store, images, trees        images made from this machine's packages, put into containerd once and then linked
    operator_image, installed   the operator's image, and the chart with replicas of it
    programs                    containerd, cluster DNS and the device plugin, built from Go modules
    needs                       what this machine lacks
"""
