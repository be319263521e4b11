#!/bin/bash
# Try slurmdbd.conf in a Pod without privileges: slurmdbd reads it, asks the database for its version and changes nothing.
# What is wrong is the Pod's last word, with exit code 1.
#
#   CANDIDATE      folder with the new file
#   KEY_FILE       Slurm's key
#   PASSWORD_FILE  the password of the database
#   DATABASE       ours: it may be still to come. theirs: it has to answer.
#   PATIENCE       seconds that it has to answer
set -u
umask 077
folder=$(mktemp -d)
password=$(< "$PASSWORD_FILE")
cp -L "$KEY_FILE" "$folder"/
sed -E '/^[[:space:]]*(DbdHost|DbdAddr|PidFile|LogFile|AuthAlt[a-z]*)[[:space:]]*=/Id' "$CANDIDATE"/slurmdbd.conf > "$folder"/slurmdbd.conf
printf '%s\n' "DbdHost=$(hostname)" "PidFile=$folder/pid" "StoragePass=\"${password//\#/\\#}\"" >> "$folder"/slurmdbd.conf
# It looks for its file beside this one.
export SLURM_CONF="$folder"/slurm.conf
timeout "$PATIENCE" slurmdbd -u -D > "$folder"/log 2>&1
code=$?
# Ended by the clock, it understood its file and waits for the database.
if [ "$code" = 124 ]; then
    [ "$DATABASE" = ours ] && exit 0
elif ! grep -q 'fatal: ' "$folder"/log; then
    exit 0
fi
sed -E -n "/Trying again/d; s#$folder/##g; s/^.*(fatal|error): //p" "$folder"/log | uniq | tail -5 | tee /dev/termination-log
exit 1
