/* Reading: ask slurmctld, pack the answer, free it. None of it touches Python, so all of it runs without the GIL.
 *
 * pack_node() and its kin are generated from the records in Python; see build.py.
 * Each read gives 0 or an error number. On 0 the buffer holds [time of the answer, [record, ...]].
 */

#include <pthread.h>

#define FAILED() (errno ? errno : SLURM_ERROR)

static int sunk_done(sunk_buffer *b)
{
	return b->broken ? ENOMEM : 0;
}

#define TABLE(name, message_type, load, count, row_type, rows, is_row, release)				\
static int sunk_##name(int64_t since, sunk_buffer *b)							\
{													\
	message_type *m = NULL;										\
	uint32_t real = 0;										\
	errno = 0;											\
	if (load)											\
		return FAILED();									\
	for (uint32_t i = 0; i < m->count; i++) {							\
		row_type *r = &m->rows[i];								\
		real += (is_row) ? 1 : 0;									\
	}												\
	put_array(b, 2);										\
	put_array(b, real);										\
	for (uint32_t i = 0; i < m->count; i++) {							\
		row_type *r = &m->rows[i];								\
		if (is_row)										\
			pack_##name(b, r);								\
	}												\
	put_number(b, m->last_update);									\
	release(m);											\
	return sunk_done(b);										\
}

#define EVERYTHING (SHOW_ALL | SHOW_DETAIL)

/* The place of a deleted node stays in the table, without a name. */
TABLE(nodes, node_info_msg_t, slurm_load_node(since, &m, EVERYTHING | SHOW_MIXED), record_count,
      node_info_t, node_array, r->name && *r->name, slurm_free_node_info_msg)
TABLE(jobs, job_info_msg_t, slurm_load_jobs(since, &m, EVERYTHING), record_count,
      slurm_job_info_t, job_array, JOB_OF(r), slurm_free_job_info_msg)
TABLE(partitions, partition_info_msg_t, slurm_load_partitions(since, &m, SHOW_ALL), record_count,
      partition_info_t, partition_array, r->name, slurm_free_partition_info_msg)
TABLE(reservations, reserve_info_msg_t, slurm_load_reservations(since, &m), record_count,
      reserve_info_t, reservation_array, r->name, slurm_free_reservation_info_msg)

/* All tables in one call, so that Python hands over one thing to one thread while nothing happens. Nodes take slurmctld
 * longest even if none changed, because it looks at each; the others are asked for meanwhile, one after another, which
 * takes no longer and less of our CPU than asking for all at once.
 */
typedef struct {
	int64_t since;
	int code;
	sunk_buffer rows;
} sunk_answer;

typedef struct {
	sunk_answer nodes, jobs, partitions, reservations;
} sunk_tables;

static void *sunk_ask_nodes(void *answer)
{
	sunk_answer *nodes = answer;
	nodes->code = sunk_nodes(nodes->since, &nodes->rows);
	return NULL;
}

static int sunk_is_answer(int code)
{
	return !code || code == SLURM_NO_CHANGE_IN_DATA;
}

/* While slurmctld is away every call takes nine seconds, so none is made after one that had no answer. A table is left
 * out if the time that it is wanted since is none.
 */
static void sunk_ask_others(sunk_tables *t)
{
	int (*ask[])(int64_t, sunk_buffer *) = { sunk_jobs, sunk_partitions, sunk_reservations };
	sunk_answer *answers[] = { &t->jobs, &t->partitions, &t->reservations };
	int code = 0;
	for (int i = 0; i < 3; i++) {
		sunk_answer *a = answers[i];
		if (sunk_is_answer(code))
			code = a->since < 0 ? SLURM_NO_CHANGE_IN_DATA : ask[i](a->since, &a->rows);
		a->code = code;
	}
}

static void sunk_everything(sunk_tables *t)
{
	pthread_t thread;
	int apart = !pthread_create(&thread, NULL, sunk_ask_nodes, &t->nodes);
	sunk_ask_others(t);
	if (apart)
		pthread_join(thread, NULL);
	else
		sunk_ask_nodes(&t->nodes);
}

static int sunk_load_job(uint32_t job, sunk_buffer *b)
{
	job_info_msg_t *m = NULL;
	errno = 0;
	if (slurm_load_job(&m, job, EVERYTHING))
		return FAILED();
	put_array(b, 2);
	put_array(b, m->record_count);
	for (uint32_t i = 0; i < m->record_count; i++)
		pack_jobs(b, &m->job_array[i]);
	put_number(b, m->last_update);
	slurm_free_job_info_msg(m);
	return sunk_done(b);
}

static int sunk_allocation(uint32_t job, sunk_buffer *b)
{
	resource_allocation_response_msg_t *m = NULL;
	errno = 0;
	if (slurm_allocation_lookup(job, &m))
		return FAILED();
	pack_allocation(b, m);
	slurm_free_resource_allocation_response_msg(m);
	return sunk_done(b);
}

static int sunk_statistics(sunk_buffer *b)
{
	stats_info_request_msg_t request = { .command_id = STAT_COMMAND_GET };
	stats_info_response_msg_t *m = NULL;
	errno = 0;
	if (slurm_get_statistics(&m, &request))
		return FAILED();
	pack_statistics(b, m);
	slurm_free_stats_response_msg(m);
	return sunk_done(b);
}

static int sunk_boot_time(int64_t *when)
{
	slurm_conf_t *m = NULL;
	errno = 0;
	if (slurm_load_ctl_conf(0, &m))
		return FAILED();
	*when = m->boot_time;
	FREE_CONFIGURATION(m);
	return 0;
}

static int sunk_configuration(sunk_buffer *b)
{
	slurm_conf_t *m = NULL;
	errno = 0;
	if (slurm_load_ctl_conf(0, &m))
		return FAILED();
	pack_configuration(b, m);
	FREE_CONFIGURATION(m);
	return sunk_done(b);
}

static int sunk_ping(void)
{
	errno = 0;
	return slurm_ping(0) ? FAILED() : 0;
}

static const char *sunk_error_name(int code)
{
	for (size_t i = 0; i < sizeof(sunk_error_names) / sizeof(sunk_error_names[0]); i++)
		if (sunk_error_names[i].code == code)
			return sunk_error_names[i].name;
	return "";
}
