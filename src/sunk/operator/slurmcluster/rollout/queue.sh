#!/bin/bash
# Ask slurmctld whether any job names one of these partitions; if so it is the Pod's last word, with exit code 1.
#
#   PARTITIONS   their names, by commas. A job may name several partitions, and is asked for by each of them.
set -u
# Who speaks to slurmctld shows a token, and sackd makes it from the key.
/usr/sbin/sackd -D > /tmp/sackd 2>&1 &
for _ in $(seq 100); do [ -S /run/slurm/sack.socket ] && break; sleep 0.1; done

jobs=$(squeue --noheader --all --array --partition="$PARTITIONS" --format=%i 2>/tmp/said) || jobs=unknown
[ -z "$jobs" ] && exit 0
count=$(wc -w <<< "$jobs") first=$(head -1 <<< "$jobs")
if [ "$jobs" = unknown ]; then
    tail -1 /tmp/said
elif [ "$count" -eq 1 ]; then
    echo "1 job ($first)"
else
    echo "$count jobs, for example $first"
fi | tee /dev/termination-log
exit 1
