"""The manifests of users and admins: GPUJob, GPUPool and GPURuntime as models, their CRDs, and the parser.

Reading order: `fields` (amounts, names, patterns), `kinds` (the models), `validation` (rules over several fields), `manifest` (from a
document to a model, or one sentence for each problem), `valid_part` (what is checked beside a fault), `suggestions` and
`table_examples` (what to write instead), `frozen_spec` (what cannot change while a child exists), `generate` (CRDs and pages),
`served` (which versions an API server serves).
"""
