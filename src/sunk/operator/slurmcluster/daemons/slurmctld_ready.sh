answer=$(timeout 8 scontrol show node sunk-probe 2>&1)
case "$answer" in *"not found"* | NodeName=* | "No nodes"*) exit 0 ;; esac
echo "slurmctld does not answer a read of a node: ${answer:-nothing within 8 s}"
exit 1
