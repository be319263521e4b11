#!/bin/bash
# What the definition of this node says about the environment of jobs, for job_env.so to hand on.
mkdir -p /run/sunk
for name in $SUNK_JOB_ENV; do
    printf '%s=%s\0' "$name" "$(printenv "$name")"
done > /run/sunk/job-environment
