"""One module a verb of `kubectl gpujob`."""
