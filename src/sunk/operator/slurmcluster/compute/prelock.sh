#!/bin/bash
# The first part of the prolog: wait until other work has left this Node. Exit code 0 starts the job.
#
#   answer of the hook API                 what is made of it
#   200 locked                             0
#   200 not-needed                         0: the job is ending, and a cancelled job must drain nothing
#   408 timeout                            other work did not leave in time: drain with the reason `timed_out`, 1.
#                                          If it had less than half of that time, because the syncer was away
#                                          before, as if there was no answer
#   400 401 403 413                        tried again for a moment, because a token may be renewed; then as if there
#                                          was no answer
#   404                                    the syncer does not know this Pod yet: tried again until the time is over
#   5xx, another status, another body      tried again until the time is over
#   no connection, TLS failure, silence    tried again until the time is over
#   no answer in all that time             drain with the reason `unreached`, 1. The service hello calls the syncer
#                                          from then on, which lifts the drain when it has answered
#   /run/sunk/hooks does not exist         0: see below
#
# All answers but the first two end the prolog with code 1: the job does not start, and is queued again if it is a batch
# job. A drain of somebody else keeps its reason (see sick). What happened is in the log of slurmd. Reasons and times are
# those of hook-settings, a file beside this one.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
# shellcheck source=src/sunk/operator/slurmcluster/compute/hooks.sh
. /etc/sunk/scripts/hooks || exit 1
readonly REFUSALS_MS=20000

# To the log of slurmd, as one line whatever was answered.
say() {
    local text=${1:0:1000}
    echo "prelock: ${text//[^[:print:]]/?}" >&2
}

# The Pod was made before there were hooks and runs until its jobs have ended. If this failed, an upgrade would drain the
# whole cluster; the Node is locked all the same, since the syncer sees the job, and only the wait is missing. A Pod that
# should have the folder has it: its kubelet does not start it without.
if [[ ! -d $hooks ]]; then
    say "this Pod has no $hooks: not waiting for other work to leave the Node"
    exit 0
fi

if [[ -z $timeout || -z $timed_out || -z $unreached ]]; then
    say "there is no /etc/sunk/scripts/hook-settings, or not all of it"
    exit 1
fi

now() {
    milliseconds=$((${EPOCHREALTIME/[.,]/} / 1000))
}

# drain REASON. If it cannot be set Slurm drains the node itself, with a reason that no one lifts: so it is tried again,
# for no longer than the time that Slurm's limits leave.
drain() {
    local try
    for try in 1 2 3 4; do
        timeout 10 /etc/sunk/scripts/sick "$1" && return
        ((try == 4)) || rest 1000
    done
}

strict=false
if [[ ${SLURM_JOB_EXTRA-} == "$placeholder"* ]]; then strict=true; fi
now
deadline=$((milliseconds + timeout * 1000))
pause=100
refused=
answered=nothing
failed=nothing

while :; do
    now
    left=$((deadline - milliseconds))
    ((left >= 1000)) || break
    # The syncer answers a little before its time is over, so that its answer is not cut off.
    given=$((left > 4000 ? left / 1000 - 2 : 1))
    body="{\"job\":$SLURM_JOB_ID,\"restarts\":${SLURM_JOB_RESTART_COUNT:-0},\"strict\":$strict,\"timeout\":$given}"
    call "$((left / 1000)).$(printf '%03d' $((left % 1000)))" pre-hook "$body"
    result=
    if [[ $answer =~ \"result\"[[:space:]]*:[[:space:]]*\"([a-z-]+)\" ]]; then result=${BASH_REMATCH[1]}; fi
    case $status/$result in
        200/locked | 200/not-needed) exit 0 ;;
        408/timeout)
            say "other work did not leave this Node in time: $answer"
            # Too little of it was left when the syncer was there again.
            ((given * 2 >= timeout)) || break
            drain "$timed_out"
            exit 1
            ;;
    esac
    if [[ $status == 000 ]]; then failed=$trouble; else answered="status $status: ${answer:0:500}"; fi
    now
    if [[ $status =~ ^(400|401|403|413)$ ]]; then
        refused=${refused:-$milliseconds}
        ((milliseconds - refused < REFUSALS_MS)) || break
    else
        refused=
    fi
    # Not all nodes of a large job at the same moment.
    rest $((pause + RANDOM % (pause + 1)))
    pause=$((pause < 2000 ? pause * 2 : pause))
done

say "not locked within $timeout s by the syncer at $server. Last answer: $answered. Last failure: $failed"
: > "$flag"
drain "$unreached"
# The service may have called before the drain was there, and have been answered.
: > "$flag"
exit 1
