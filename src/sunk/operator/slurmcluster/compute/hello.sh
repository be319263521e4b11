#!/bin/bash
# A service: while the flag is there, call the syncer every 5 seconds, until it answers. A node that was drained because it
# did not reach the syncer is undrained upon that. Also called once at the start, since the flag is lost with a container.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
# shellcheck source=src/sunk/operator/slurmcluster/compute/hooks.sh
. /etc/sunk/scripts/hooks
: > "$flag"
while :; do
    if [[ -e $flag ]]; then
        # The name of the server may be another by now.
        # shellcheck source=/dev/null
        . /etc/sunk/scripts/hook-settings
        # Taken away before the call: an answer says nothing of a drain that a prolog sets, with its flag, meanwhile.
        rm -f "$flag"
        call 10 hello
        if [[ $status != 200 ]]; then : > "$flag"; fi
    fi
    rest 5000
done
