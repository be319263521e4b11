set -eu
# The first process of a container is deaf to signals that it has not asked for.
trap 'exit 0' TERM
password=$(< /etc/sunk/secret/password)
case $password in
    *[[:cntrl:]\"\\]*)
        echo "The password of the database has a quote, a backslash or a control character, which Slurm cannot read." >&2
        exit 2 ;;
esac
umask 077
{ cat /etc/sunk/slurmdbd/slurmdbd.conf; printf 'StoragePass="%s"\n' "${password//\#/\\#}"; } > /etc/slurm/slurmdbd.conf
# Behind the Service may be a Pod that is just gone, from which no answer comes for two minutes.
until timeout 3 bash -c 'exec 3<> "/dev/tcp/$HOST/$PORT"' 2> /dev/null; do
    echo "waiting for the database at $HOST:$PORT"
    sleep 2
done
exec /init slurmdbd
