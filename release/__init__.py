"""What a release consists of besides the image: made from the chart, the catalog and the changelog, never by hand.

`make chart`, `make bundle`, `make plugin`, `make krew` and `make vex` write into dist/. The release workflow runs these targets and
the scripts of steps/; the tests run both, and hold what is made to the tools that read it. Reading order: `changelog` (what
changed), `related_images` (what a cluster pulls), `chart` (the chart with Artifact Hub's annotations), `bundle` (for the Operator
Lifecycle Manager), `plugin` (for krew), `vex` (which known vulnerabilities do not matter, and why).
"""
