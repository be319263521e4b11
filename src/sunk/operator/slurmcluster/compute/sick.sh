#!/bin/bash
# Drain this node because something is wrong with it: sick REASON.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
node=${SLURMD_NODENAME:-$(hostname)}
# A slurmctld that does not answer says nothing about drains, and a moment later it may take this one over a person's.
state=$(scontrol show node "$node" --oneliner | grep -o ' State=[^ ]*') || exit 1
told=$(sinfo --noheader --nodes="$node" --format=%E | head -n 1)
# Said over a reason of ours, unless it is one itself: of those the syncer decides which shows.
[[ $state != *FAIL* && ($state != *DRAIN* || ($told == k8s:* && $* != k8s:*)) ]] || exit 0
# Nor is anything said over the reason for which a person has set it DOWN.
[[ $state != *DOWN* || $state == *DRAIN* || $told =~ ^(|none|Not\ responding|k8s:.*)$ ]] || exit 0
scontrol update nodename="$node" state=drain reason="$*"
