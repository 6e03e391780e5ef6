"""Records of GPUJobs, Jobs and pods, and of what preflight and rendezvous write."""
