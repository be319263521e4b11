#!/bin/bash
# Prolog of `bench.lock`: while /home/locking is there, the one of the product with its times written down; else nothing.
[[ -e /home/locking ]] || exit 0
began=$EPOCHREALTIME
/etc/sunk/scripts/prelock
code=$?
echo "$began $EPOCHREALTIME" > "/home/prologs/$SLURM_JOB_ID.$SLURMD_NODENAME"
exit "$code"
