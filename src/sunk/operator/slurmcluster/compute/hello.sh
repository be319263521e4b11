#!/bin/bash
# A service: while the flag is there, call the syncer every 5 seconds, until it answers. A node that was drained because it
# did not reach the syncer is undrained upon that. Also called at the start, since the flag is lost with a container, and
# every quarter of an hour: a drain may take effect later than its prolog thinks, or come from a Pod that is gone.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
# shellcheck source=src/sunk/operator/slurmcluster/compute/hooks.sh
. /etc/sunk/scripts/hooks
: > "$flag"
rounds=0
while :; do
    if ((++rounds % 180 == 0)); then : > "$flag"; fi
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
