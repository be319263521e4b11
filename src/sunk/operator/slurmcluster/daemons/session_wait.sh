# Before a login Pod ends: wait until everybody has logged out, for no longer than SUNK_SESSION_WAIT seconds.
if pgrep --full '^sshd-session: ' > /dev/null; then
    echo "waiting up to $SUNK_SESSION_WAIT s for people to log out" > /proc/1/fd/2
fi
while ((SECONDS < SUNK_SESSION_WAIT)) && pgrep --full '^sshd-session: ' > /dev/null; do
    sleep 1
done
exit 0
