"""A cluster in virtual time: a dict that stands for the API server, its controllers and kubelets, and the real controller on it."""
