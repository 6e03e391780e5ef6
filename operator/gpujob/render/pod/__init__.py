"""The parts of the rendered pod: container, environment, preflight, reporter, security, rendezvous."""
