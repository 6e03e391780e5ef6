"""One module a verb of `kubectl gpujob`.

Reading order: `verbs` (the table of verbs and options), `commands` (what each does); longer verbs have a module: `capture`,
`catalog`, `cost`, `logs`, `top`, `wait`.
"""
