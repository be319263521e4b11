answer=$(timeout 8 scontrol show node sunk-probe 2>&1); code=$?
[ "$code" -eq 124 ] && echo "no answer from slurmctld within 8 s" && exit 1
case "$answer" in *"Unable to contact"* | *"timed out"*) echo "$answer" && exit 1 ;; esac
exit 0
