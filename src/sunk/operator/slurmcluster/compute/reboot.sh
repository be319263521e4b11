#!/bin/bash
# RebootProgram: Slurm calls this on a node that it is to reboot. The syncer asks for the reboot of the Node, by a condition
# that whoever looks after machines heeds. Exit code 0 says that it has asked; all else is in the log of slurmd.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
# slurmd gives its programs no name of the node.
POD_NAME=${POD_NAME:-$(hostname)}
# shellcheck source=src/sunk/operator/slurmcluster/compute/hooks.sh
. /etc/sunk/scripts/hooks
readonly TRIES=5 PAUSE_MS=2000

for ((try = 1; try <= TRIES; try++)); do
    call 30 reboot '{}'
    if [[ $status == 200 ]]; then exit 0; fi
    ((try == TRIES)) || rest "$PAUSE_MS"
done

told="status $status: $answer"
if [[ $status == 000 ]]; then told=$trouble; fi
told=${told:0:500}
echo "reboot: the Node of $POD_NAME is not rebooted, the syncer at $server was asked $TRIES times: ${told//[^[:print:]]/?}" >&2
exit 1
