"""Reports how a training goes, without a change of its code: steps, samples, tokens, waiting, memory, progress.

    onpath/sitecustomize ─▶ watch ── torch.optim is imported ──────▶ torch_hooks ─▶ rank   (in the training thread: 1 µs a step)
                                  ── transformers is imported ─────▶ trainer ─────▶ rank   (the Trainer's own callback, on loopback)
    onpath/gpujob_report ──────────── the user's one line ─────────▶ process ─────▶ rank
                                                                                     │ every 2 s, in a thread of its own (process)
    GET /metrics ◀── server ◀── exposition ◀── shared: figures of all ranks ◀────────┘

Reading order: `watch` with `loader` and `own_imports` (how it comes into a program), `hooks` (torch and the Trainer), `line` (the
user's one line), `process` and `settings` (the reporter of a process), `rank` (the figures of one process), `readings` (batches
and torch's state), `serving` (the pod's page), `standstill` (the clock of a hang), `guard` (every failure stays here).

docs/telemetry.md lists what is exported. Imports torch never, only uses what the program imported. Nothing starts before the first
optimizer, so processes that do not train stay as they are.
"""
