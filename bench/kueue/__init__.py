"""Kueue beside GPUJobs in `bench.jobs_bound --kueue`: its manager, built from its Go module, with its shipped configuration."""
