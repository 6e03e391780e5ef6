"""Where the reporter touches the program's libraries: torch's optimizers and data loaders (`torch_hooks`), the Trainer (`trainer`)."""
