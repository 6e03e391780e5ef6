"""How much the pure tests hold: small faults are put into gpujob at random, and tests have to notice each of them.

In reading order: `changes` finds what can be changed, `equivalent` names what changes nothing by it, `in_process`
finds which tests run a line and tries the faults of functions at once, `trial` each other one on a changed copy, `__main__` draws
the sample and prints the table. `make mutants` runs it.
"""
