trap 'exit 1' TERM
known() { [ -s /var/spool/slurmctld/assoc_mgr_state ] && [ "$(cat /var/spool/slurmctld/sunk-accounting 2> /dev/null)" = "$SUNK_ACCOUNTING" ]; }
until known || timeout 3 bash -c 'exec 3<> "/dev/tcp/$HOST/$PORT"' 2> /dev/null; do
    ((tries++ % 15)) || echo "waiting for slurmdbd at $HOST:$PORT: slurmctld needs it for its first start with this accounting"
    sleep 1
done
