# shellcheck shell=bash
# Sourced by prelock, hello and reboot: one call to the hook API of the syncer.
#
# The token is in no command line and in no variable that a child has: curl reads it from a pipe. What the environment of
# a Pod says about proxies, and root's .curlrc, do not count.
# shellcheck disable=SC2034 # used by those that source this
hooks=/run/sunk/hooks
# The service hello calls the syncer while this file exists.
# shellcheck disable=SC2034
flag=/run/sunk/hooks-unreached
# shellcheck disable=SC2034
server='' timeout='' placeholder='' timed_out='' unreached=''
# shellcheck source=/dev/null
. /etc/sunk/scripts/hook-settings
# Nothing ever comes out of it, so a read from it takes as long as it is told to.
exec {silence}<> <(:)

# call SECONDS PATH [BODY]: sets `status`, which is 000 if nobody answered, `answer`, and `trouble`, what curl said.
# shellcheck disable=SC2034
call() {
    local token='' reply last
    local options=(--disable --silent --noproxy '*' --config - --cacert "$hooks/ca.crt" --tlsv1.2)
    # A syncer whose machine has died says nothing more, and another one may have taken over meanwhile.
    options+=(--connect-timeout 5 --max-time "$1" --keepalive-time 5 --max-filesize 1000000)
    options+=(--write-out '\n%{http_code} %{errormsg}')
    if (($# > 2)); then options+=(--header 'Content-Type: application/json' --data "$3"); fi
    read -r token 2> /dev/null < "$hooks/token" || true
    # Whoever answers may send zero bytes, of which the shell would complain.
    {
        reply=$(printf 'header = "Authorization: Bearer %s"\n' "$token" |
            curl "${options[@]}" "https://$server/v1/nodes/${SLURMD_NODENAME:-$POD_NAME}/$2")
    } 2> /dev/null
    last=${reply##*$'\n'}
    answer=${reply%$'\n'*}
    status=${last%% *} trouble=${last#* }
}

# rest MILLISECONDS, without another process.
rest() {
    local fraction
    printf -v fraction '%d.%03d' "$(($1 / 1000))" "$(($1 % 1000))"
    read -r -t "$fraction" -u "$silence" || true
}
