# shellcheck shell=sh
# Sourced by login shells: plain `srun` starts MPI programs by PMIx if Slurm has it here and slurm.conf says nothing else.
# Without this each process would take itself for the only one.
if [ -z "${SLURM_MPI_TYPE-}" ] && ls /usr/lib/*/slurm*/mpi_pmix.so > /dev/null 2>&1 &&
    ! grep -qsi '^MpiDefault=' /run/slurm/conf/slurm.conf /var/spool/slurmd/conf-cache/slurm.conf; then
    export SLURM_MPI_TYPE=pmix
fi
