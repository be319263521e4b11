/* Submit held jobs from some threads as fast as slurmctld takes them, and print the seconds that it took.
 *
 * It makes the calls of `bench.slurm.submits`, with the same job, and nothing else.
 */

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>

#define SCRIPT "#!/bin/sh\nsleep 600\n"
#define ALICE 1001

static int each;

static void *submit(void *unused)
{
	char *environment[] = { "PATH=/usr/local/bin:/usr/bin:/bin" };
	for (int i = 0; i < each; i++) {
		submit_response_msg_t *answer = NULL;
		job_desc_msg_t job;
		slurm_init_job_desc_msg(&job);
		job.name = "bench";
		job.script = SCRIPT;
		job.environment = environment;
		job.env_size = 1;
		job.work_dir = "/";
		job.user_id = job.group_id = ALICE;
		job.min_nodes = 1;
		job.pn_min_memory = 100;
		job.priority = 0;
		job.extra = "{\"bench\": true}";
		if (slurm_submit_batch_job(&job, &answer) || !answer) {
			slurm_perror("submit");
			exit(1);
		}
		slurm_free_submit_response_response_msg(answer);
	}
	return unused;
}

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

int main(int count, char **words)
{
	if (count != 3) {
		fprintf(stderr, "usage: submit THREADS JOBS\n");
		return 2;
	}
	int threads = atoi(words[1]);
	pthread_t started[threads];
	each = atoi(words[2]) / threads;
	slurm_init(NULL);
	double began = now();
	for (int i = 0; i < threads; i++)
		pthread_create(&started[i], NULL, submit, NULL);
	for (int i = 0; i < threads; i++)
		pthread_join(started[i], NULL);
	printf("%f\n", now() - began);
	return 0;
}
