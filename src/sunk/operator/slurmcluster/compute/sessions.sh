#!/bin/bash
# sessions begin|end: people log in to this node for as long as they have a job here (compute.ssh), and no longer.
#
#   begin   in the prolog: writes down whose the job is
#   end     in the epilog: if its user has no other job here, ends the processes of that user
#
# Slurm itself ends the processes of steps. A login over ssh is part of a job only where control groups track processes, and
# a Pod without privileges has none: what people have started there would go on. pam_slurm_adopt still lets nobody in
# without a job, so all that is left is to end what is there.
#
# Who else has a job here? slurmctld knows, but every node would have to ask it at the end of every job, and slurmctld may be
# away. The step daemons know too, but their titles name jobs and not users. So the prolog writes it down, and a job counts
# while a step daemon runs for it: PrologFlags=Contain gives every job one, from the end of its prolog until before its
# epilog. A job that nobody has written down may be anybody's, and nothing is ended then.
#
# What belongs to a step is left to Slurm: a job of the same user may be starting right now. So are services of s6. Programs
# below a process of the user go with it, whoever runs them: that is what sudo leaves behind.
set -u
export PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C
jobs=/run/sunk/jobs
uid=${SLURM_JOB_UID-} own=${SLURM_JOB_ID-}
# Root and the users of the image have no sessions here that would be ours to end.
readonly LEAST=500 GENTLE=20 ROUNDS=100

say() {
    echo "sessions: $*" >&2
}

# Jobs that have a step daemon. Its title is worth something only if it is root's: everybody can choose one.
running_jobs() {
    ps -eo ruid=,args= | awk '$1 == 0 && $2 == "slurmstepd:" { split(substr($3, 2), id, /[^0-9]/); print id[1] }' | sort -u
}

has_another_job() {
    local job owner
    while read -r job; do
        [[ -n $job && $job != "$own" ]] || continue
        owner=
        read -r owner 2> /dev/null < "$jobs/$job"
        if [[ -z $owner ]]; then
            say "nobody knows whose job $job is: no session of user $uid is ended"
            return 0
        fi
        [[ $owner != "$uid" ]] || return 0
    done < <(running_jobs)
    return 1
}

# Processes of the user, and all that is below them, that are neither part of a step nor of a service other than sshd.
processes() {
    ps -eo pid=,ppid=,ruid=,stat=,args= | awk -v uid="$uid" '
        { parent[$1] = $2; user[$1] = $3; dead[$1] = $4 ~ /^Z/; program[$1] = $5; argument[$1] = $6 }
        function meant(pid,   mine, steps) {
            for (steps = 0; pid in parent && steps < 10000; steps++) {
                if (user[pid] == uid) mine = 1
                if (user[pid] == 0 && program[pid] ~ /(^|\/)slurmstepd:?$/) return 0
                if (user[pid] == 0 && program[pid] ~ /(^|\/)s6-supervise$/) return mine && argument[pid] == "sshd"
                pid = parent[pid]
            }
            return mine
        }
        END { for (pid in parent) if (!dead[pid] && meant(pid)) print pid }'
}

end_processes() {
    local round found signal
    for ((round = 0; round < ROUNDS; round++)); do
        mapfile -t found < <(processes)
        ((${#found[@]})) || return 0
        ((round)) || say "ending ${#found[@]} processes of user $uid, whose last job on this node was $own"
        # The shells of people hang up when their sshd goes, and may save what they have.
        signal=
        if ((round == 0)); then signal=TERM; elif ((round >= GENTLE)); then signal=KILL; fi
        [[ -z $signal ]] || kill -s "$signal" "${found[@]}" 2> /dev/null
        sleep 0.1
    done
    return 1
}

case ${1-} in
    begin)
        # A job whose user is not written down keeps sessions alive. That is no reason not to start it.
        if ! mkdir -p "$jobs" || ! echo "$uid" > "$jobs/$own"; then say "cannot write $jobs/$own"; fi
        exit 0
        ;;
    end)
        rm -f "$jobs/$own"
        [[ $uid =~ ^[0-9]{1,10}$ ]] && ((uid >= LEAST && uid != $(id -u slurm 2> /dev/null || echo 0))) || exit 0
        # A Pod that was made before there was sshd.
        [[ -d /etc/ssh/host-keys ]] || exit 0
        has_another_job && exit 0
        end_processes && exit 0
        say "processes of user $uid do not end: $(processes | tr '\n' ' ')"
        /etc/sunk/scripts/sick "processes of user $uid do not end after job $own"
        exit 1
        ;;
    *)
        echo "usage: sessions begin|end" >&2
        exit 2
        ;;
esac
