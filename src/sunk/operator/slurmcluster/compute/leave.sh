#!/bin/bash
# Tell Slurm that this node is about to be gone.
state=$(scontrol show node "$POD_NAME" --oneliner | grep -o ' State=[^ ]*') || exit 1
reason='k8s: pod terminated'
if [[ $state == *DRAIN* || $state == *FAIL* ]]; then
    told=$(sinfo --noheader --nodes="$POD_NAME" --format=%E | head -n 1)
    reason=${told:-$reason}
fi
exec scontrol update nodename="$POD_NAME" state=down reason="$reason"
