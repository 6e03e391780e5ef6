"""Reports how a training goes, without a change of its code: steps, samples, tokens, waiting, memory, progress.

    onpath/sitecustomize ─▶ watch ── torch.optim is imported ──────▶ torch_hooks ─▶ rank   (in the training thread: 1 µs a step)
                                  ── transformers is imported ─────▶ trainer ─────▶ rank   (the Trainer's own callback, on loopback)
    onpath/gpujob_report ──────────── the user's one line ─────────▶ process ─────▶ rank
                                                                                     │ every 2 s, in a thread of its own (process)
    GET /metrics ◀── server ◀── exposition ◀── shared: figures of all ranks ◀────────┘

`standstill` has the clock of a hang; `rank` holds the figures of one process; `shared` is the folder by which the processes of a
pod know each other; `guard` keeps every failure here. docs/telemetry.md lists what is exported. Imports torch never, only uses
what the program imported. Nothing starts before the first optimizer, so processes that do not train stay as they are.
"""
