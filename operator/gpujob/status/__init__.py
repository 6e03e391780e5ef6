"""What came of it: children as seen in the cluster become a job's status, conditions and events.

Reading order: `records` (slim records of GPUJobs, child Jobs and their pods), `observe` (pods and child -> what is the
case), `conditions`, `report` (the whole status), `news` (the patch that makes it so, where that says something new), `events`;
`pools` (what a GPUPool says).
"""
