/*
 * A SPANK plugin: gives steps and tasks the variables of `compute.nodes.*.env`.
 *
 * TaskProlog could do it too, but with pyxis a task prolog runs inside the container, where the script is not found and
 * the task fails. The file is read by slurmstepd, outside of any container. It holds NAME=value, ended by a NUL each.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include <slurm/spank.h>

#define VARIABLES "/run/sunk/job-environment"

SPANK_PLUGIN(sunk_job_env, 1)

/* Before the options are looked at: whatever other plugins do, they see these variables too. */
int slurm_spank_init_post_opt(spank_t spank, int count, char *arguments[])
{
	char *line = NULL, *value;
	size_t size = 0;
	FILE *file;

	(void) count;
	(void) arguments;
	if (spank_context() != S_CTX_REMOTE)
		return ESPANK_SUCCESS;
	file = fopen(VARIABLES, "re");
	if (!file)
		return ESPANK_SUCCESS;
	while (getdelim(&line, &size, '\0', file) > 0) {
		value = strchr(line, '=');
		if (!value)
			continue;
		*value++ = '\0';
		if (spank_setenv(spank, line, value, 1) != ESPANK_SUCCESS)
			slurm_error("cannot set %s, which compute.nodes.*.env asks for", line);
	}
	free(line);
	fclose(file);
	return ESPANK_SUCCESS;
}
