#!/bin/bash
# Slurm calls this when processes of a job do not die.
exec /etc/sunk/scripts/sick "unkillable processes of job ${SLURM_JOB_ID:-?}"
