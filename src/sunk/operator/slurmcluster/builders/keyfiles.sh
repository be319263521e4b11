set -eu
shopt -s nullglob
umask 0377
trap 'exit 0' TERM
copied=
copy() {
    local sum file name
    sum=$(sha256sum /etc/sunk/secrets/*)
    [ "$sum" != "$copied" ] || return 0
    for file in /etc/sunk/secrets/*; do
        name=${file##*/}
        rm -f "/etc/sunk/keys/.$name"
        cat "$file" > "/etc/sunk/keys/.$name"
        [ -z "${OWNER:-}" ] || chown "$OWNER:$OWNER" "/etc/sunk/keys/.$name"
        mv -f "/etc/sunk/keys/.$name" "/etc/sunk/keys/$name"
    done
    for file in /etc/sunk/keys/*; do
        [ -e "/etc/sunk/secrets/${file##*/}" ] || rm -f "$file"
    done
    [ -z "$copied" ] || echo "the keys have changed"
    copied=$sum
}
copy
: > /etc/sunk/keys/.copied
while :; do
    sleep 10 &
    wait $!
    copy
done
