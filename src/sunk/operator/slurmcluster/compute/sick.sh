#!/bin/bash
# Drain this node because something is wrong with it: sick REASON.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
node=${SLURMD_NODENAME:-$(hostname)}
state=$(scontrol show node "$node" --oneliner | grep -o ' State=[^ ]*')
told=$(sinfo --noheader --nodes="$node" --format=%E | head -n 1)
# Said over a reason of ours, unless it is one itself: of those the syncer decides which shows.
[[ $state != *FAIL* && ($state != *DRAIN* || ($told == k8s:* && $* != k8s:*)) ]] || exit 0
scontrol update nodename="$node" state=drain reason="$*"
