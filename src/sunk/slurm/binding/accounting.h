/* Asking slurmdbd about jobs that slurmctld no longer has.
 *
 * A connection for each question: they are rare, and one that is kept would have to be mended after every restart of
 * slurmdbd. Duplicates are wanted, because a number may have been given out again, and a requeue makes a further row.
 * slurmdbd also gives the tasks of an array whose number is asked for, as many as ever ran: so rows that ended before
 * `since` are left out. slurmdbd shows no start before that time either, which moves none past an end that it gives.
 */

static int sunk_ask_accounting(slurmdb_job_cond_t *wanted, sunk_buffer *b)
{
	errno = 0;
	void *connection = slurmdb_connection_get(NULL);	/* also where nobody answers; NULL where there is no accounting */
	list_t *found = connection && !errno ? slurmdb_jobs_get(connection, wanted) : NULL;
	int code = found ? 0 : FAILED();
	if (connection)
		slurmdb_connection_close(&connection);
	if (!found)
		return code;
	put_array(b, 2);
	put_array(b, slurm_list_count(found));
	list_itr_t *rows = slurm_list_iterator_create(found);
	for (slurmdb_job_rec_t *r; (r = slurm_list_next(rows));)
		pack_accounted(b, r);
	slurm_list_iterator_destroy(rows);
	put_number(b, 0);
	slurm_list_destroy(found);
	return sunk_done(b);
}

/* `jobs` are numbers with commas between them; `since` is 0 for all rows. */
static int sunk_accounted(char *cluster, char *jobs, int64_t since, sunk_buffer *b)
{
	slurmdb_job_cond_t wanted = {
		.db_flags = SLURMDB_JOB_FLAG_NOTSET,
		.flags = JOBCOND_FLAG_DUP | JOBCOND_FLAG_NO_STEP | JOBCOND_FLAG_NO_WHOLE_HETJOB,
		.cluster_list = slurm_list_create(NULL),
		.step_list = slurm_list_create(slurm_destroy_selected_step),
		.usage_start = since,
	};
	slurm_list_append(wanted.cluster_list, cluster);
	slurm_addto_step_list(wanted.step_list, jobs);
	int code = sunk_ask_accounting(&wanted, b);
	slurm_list_destroy(wanted.cluster_list);
	slurm_list_destroy(wanted.step_list);
	return code;
}
