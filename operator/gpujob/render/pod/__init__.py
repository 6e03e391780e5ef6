"""The parts of the rendered pod: container, environment, preflight, reporter, security, rendezvous.

Reading order: `container` (what preflight and training share), `environment`, `rendezvous`, `folders`, `security`, `pinning`
(its nodes); parts that a job may have: `preflight`, `reporter`, `code`, `checkpoint`, `host_devices`.
"""
