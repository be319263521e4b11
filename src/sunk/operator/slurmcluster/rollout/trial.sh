#!/bin/bash
# Try a configuration in a Pod without privileges: slurmctld first, then the slurmd of each kind of node. What is wrong
# is the Pod's last word, with exit code 1. It runs in the image of slurmctld and in those of compute nodes.
#
#   CANDIDATE    folder with the new files
#   IMAGE        what this image is called
#   CONTROLLER   yes: the answer of slurmctld counts. Else it is only here for slurmd to register with.
#   NODES        one line for each slurmd to try: name of the node, a blank, its Gres
#   ELSEWHERE    folders of compute Pods that are not in the image, by colons; / if files may come from anywhere
set -u
umask 077
folder=$(mktemp -d)
node=$folder/node
mkdir "$folder/state" "$node" "$node/spool"

# ---- what is said

# Without what is only due to the trial: no state to begin with, no database, and less hardware than a node has.
words() {
    sed -E -n "
        /gathered, but not stored|state (save )?file|may be lost|last_config_lite|Could not open .*state/d
        /despite slurmctld|xcpuinfo_hwloc|differs from hardware|latest value used|initialization failed/d
        s#$node/devices##g; s#$node/##g; s#$folder/##g; s/^.*(fatal|error): //p
    " "$1" | uniq | tail -n 5
}

refuse() {
    echo "$*" | tee /dev/termination-log
    exit 1
}

# A plugin that is named nowhere but in the configuration. Releases say it in different words, and some name none.
refuse_unknown_plugin() { # LOG DAEMON
    local plugin line
    for plugin in $(sed -E -n "s/.*(error|fatal): .* for ([a-z_]+\/[^ :]+).*/\2/p" "$1" | uniq); do
        if [[ -d $plugins && ! -e $plugins/${plugin/\//_}.so ]]; then
            line=$(grep -hi "=.*$plugin" "$CANDIDATE"/*.conf | grep -m 1 .)
            refuse "${line:-$plugin}: $2 cannot start: $IMAGE has no plugin $plugin"
        fi
    done
}

# ---- the files, with what follows from where they are tried

without() { # FILE KEYS: take these settings out
    sed -i -E "/^[[:space:]]*($2)[[:space:]]*=/Id" "$1"
}

value() { # KEY
    sed -E -n "s/^[[:space:]]*$1[[:space:]]*=[[:space:]]*\"?([^\"[:space:]#]*).*/\1/Ip" "$CANDIDATE/slurm.conf" | tail -n 1
}

loud() { # KEY: a daemon that says nothing cannot be heard
    sed -i -E "s/^[[:space:]]*$1[[:space:]]*=[[:space:]]*(quiet|fatal|error|[0-2])[[:space:]]*\$/$1=info/I" "$folder/slurm.conf"
}

prepare() {
    cp -L "$CANDIDATE"/* "$folder"/ || exit 2
    # Programs that slurmctld runs when it starts would do here what they do there.
    without "$folder/slurm.conf" "StateSaveLocation|SlurmctldHost|SlurmctldPidFile|AccountingStorage[a-z]*|SlurmUser|Slurmctld(Sched)?LogFile|SlurmSchedLogFile|SlurmctldPrimary(On|Off)Prog"
    loud SlurmctldDebug
    loud SlurmdDebug
    # Nobody is to trust what is signed here, so that keys of its own will do.
    head -c 64 /dev/urandom > "$folder/slurm.key"
    head -c 32 /dev/urandom > "$folder/jwt_hs256.key"
    sed -i -E "s#jwt_key=[^,[:space:]]*#jwt_key=$folder/jwt_hs256.key#I" "$folder/slurm.conf"
    printf '%s\n' "StateSaveLocation=$folder/state" "SlurmctldHost=$(hostname -s)(127.0.0.1)" \
        "SlurmctldPidFile=$folder/pid" "SlurmUser=$(id -un)" >> "$folder/slurm.conf"
    export SLURM_CONF=$folder/slurm.conf
    plugins=$(value PluginDir)
    [[ -n $plugins ]] || plugins=$(dirname "$(find /usr/lib /usr/local/lib /opt -name auth_slurm.so -print -quit 2> /dev/null)")
}

# ---- slurmctld

try_controller() {
    touch "$folder/log"
    slurmctld -D -c -f "$SLURM_CONF" > "$folder/log" 2>&1 &
    controller=$!
    for _ in $(seq 300); do
        if grep -q 'Running as primary controller' "$folder/log"; then return; fi
        kill -0 "$controller" 2> /dev/null || break
        sleep 0.1
    done
    kill -9 "$controller" 2> /dev/null
    # shellcheck disable=SC2153 # from the environment
    if [[ $CONTROLLER == yes ]]; then
        refuse_unknown_plugin "$folder/log" slurmctld
        refuse "$(words "$folder/log")"
    fi
}

# ---- slurmd

# Control groups need privileges: the plugins that use them have a twin that does not. Devices are not here, and any
# file under their name will do. What slurmd would run is only looked for.
adapt() {
    find "$folder" -maxdepth 1 -type f -exec cp -t "$node" {} +
    without "$node/slurm.conf" "SlurmdUser|SlurmdSpoolDir|SlurmdPidFile|SlurmdLogFile|HealthCheckProgram"
    sed -i -E '
        /^[[:space:]]*(ProctrackType|JobAcctGatherType|TaskPlugin)[[:space:]]*=/I {
            s#proctrack/cgroup#proctrack/linuxproc#I
            s#jobacct_gather/cgroup#jobacct_gather/linux#I
            s#task/cgroup#task/none#I
            s#(task/[a-z]+),task/none#\1#I
            s#task/none,(task/[a-z]+)#\1#I
        }
    ' "$node/slurm.conf"
    printf '%s\n' "SlurmdUser=$(id -un)" "SlurmdSpoolDir=$node/spool" "SlurmdPidFile=$node/pid" >> "$node/slurm.conf"
    touch "$node/cgroup.conf" "$node/gres.conf"
    sed -i -E '/^[[:space:]]*CgroupPlugin[[:space:]]*=[[:space:]]*(autodetect|cgroup\/v[12]|disabled)[[:space:]]*$/Id' "$node/cgroup.conf"
    grep -qi '^[[:space:]]*CgroupPlugin' "$node/cgroup.conf" || echo CgroupPlugin=disabled >> "$node/cgroup.conf"
    local files file
    # shellcheck disable=SC2013 # none has a blank in it
    for files in $(grep -oiE '\<(Multiple)?Files?=[^[:space:]]+' "$node/gres.conf"); do
        for file in $(scontrol show hostnames "${files#*=}"); do
            mkdir -p "$node/devices${file%/*}" && touch "$node/devices$file"
        done
    done
    sed -i -E "s#\<((Multiple)?Files?=)/#\1$node/devices/#Ig; :more; s#(devices/[^[:space:]]*,)/([^[:space:]]*)#\1@@\2#; t more; s#@@#$node/devices/#g" "$node/gres.conf"
}

elsewhere() { # PATH
    local place places
    IFS=: read -r -a places <<< "$ELSEWHERE"
    for place in "${places[@]}"; do
        if [[ $place == / || $1 == "$place" || $1 == "${place%/}"/* ]]; then return; fi
    done
    return 1
}

# What is not read before a job comes.
look_for_files() {
    local key path mpi
    for key in Prolog Epilog TaskProlog TaskEpilog HealthCheckProgram UnkillableStepProgram; do
        path=$(value "$key")
        if [[ $path == /* ]] && ! elsewhere "$path" && ! compgen -G "$path" > /dev/null; then
            refuse "$key=$path: no such file in the compute image $IMAGE, and no volume provides it"
        fi
    done
    mpi=$(value MpiDefault)
    if [[ -n $mpi && $mpi != none && -d $plugins && ! -e $plugins/mpi_$mpi.so ]]; then
        refuse "MpiDefault=$mpi: $IMAGE has no such plugin. It has: $(cd "$plugins" && echo mpi_*.so | sed 's/mpi_//g; s/\.so//g')"
    fi
}

try_node() { # NAME GRES
    local log=$node/log daemon
    : > "$log"
    slurmd -D -Z -f "$node/slurm.conf" -N "$1" --conf "CPUs=1 RealMemory=1${2:+ Gres=$2}" > "$log" 2>&1 &
    daemon=$!
    for _ in $(seq 750); do
        if grep -q 'slurmd started on' "$log"; then
            count_devices "$1"
            kill "$daemon"
            wait "$daemon"
            return
        fi
        kill -0 "$daemon" 2> /dev/null || break
        sleep 0.1
    done
    kill -9 "$daemon" 2> /dev/null && exit 2
    judge "$log"
}

# A node with fewer devices than it says is drained, by slurmctld. With AutoDetect only the real node can tell.
count_devices() { # NAME
    local state
    if ! kill -0 "$controller" 2> /dev/null || grep -qiE '^[^#]*AutoDetect' "$node/gres.conf"; then return; fi
    for _ in $(seq 50); do
        state=$(sinfo --noheader --Node --nodes="$1" --format='%T %E' 2> /dev/null)
        [[ -z $state ]] || break
        sleep 0.1
    done
    if [[ $state == *"count reported lower than configured"* ]]; then refuse "gres.conf: ${state#* }"; fi
}

# What slurmd died of: the configuration, or that this Pod may less than a node's and has none of its devices.
judge() { # LOG
    local file
    refuse_unknown_plugin "$1" slurmd
    file=$(sed -E -n 's/.*dlopen\(([^)]+)\).*/\1/p' "$1" | grep -m 1 .)
    if [[ -n $file ]] && elsewhere "$file"; then return; fi
    if ! grep -qE '(error|fatal): .*(Permission denied|Operation not permitted|Read-only file system|No such device|init\(\) callback failed|lib (was|wasn.t|not) .*found|NVML|lib(nvidia|cuda|rocm|ze_))' "$1"; then
        refuse "slurmd fails to start with this configuration: $(words "$1")"
    fi
}

prepare
controller=0
try_controller
if [[ -n $NODES ]]; then
    look_for_files
    adapt
    while read -r name gres; do try_node "$name" "$gres"; done <<< "$NODES"
fi
kill "$controller" 2> /dev/null
exit 0
