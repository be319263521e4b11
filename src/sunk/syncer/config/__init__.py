"""What slurmctld runs with: whether it is what the ConfigMap holds, and telling it to read its files again.

In come slurmctld's ConfigMap and its own answer about its configuration; out go reconfigures, and the configuration in
force for the report. `sunk.syncer.process` runs `ConfigController`; `drains` asks for a reconfigure after it changed
features. `startup` runs before anything else, from `sunk.syncer.commands`.

Read `controller`, `partitions` (which partitions lag behind the features of nodes), `startup` (waits for a configuration
that libslurm can be loaded with).
"""
