"""How long a process has shown no sign of work, what it does meanwhile, and where its training thread stands.

`phases` has the clock, `stack` reads what the threads execute, `page` answers GET /ranks. The operator compares the ranks of a job
and decides: nothing here ends or interrupts anything.
"""
