/* Tables within a row: requests and callers of the statistics, CPUs by node of an allocation. */

static void put_rpcs(sunk_buffer *b, const stats_info_response_msg_t *r)
{
	put_array(b, r->rpc_type_size);
	for (uint32_t i = 0; i < r->rpc_type_size; i++) {
		put_array(b, 3);
		put_number(b, r->rpc_type_id[i]);
		put_number(b, r->rpc_type_cnt[i]);
		put_number(b, r->rpc_type_time[i]);
	}
}

/* Slurm says `4 CPUs on each of 2 nodes`; here each node has its own number, in the order of the node list. */
static void put_cpus(sunk_buffer *b, const resource_allocation_response_msg_t *r)
{
	uint32_t nodes = 0;
	for (uint32_t i = 0; i < r->num_cpu_groups; i++)
		nodes += r->cpu_count_reps[i];
	put_array(b, nodes);
	for (uint32_t i = 0; i < r->num_cpu_groups; i++)
		for (uint32_t j = 0; j < r->cpu_count_reps[i]; j++)
			put_number(b, r->cpus_per_node[i]);
}

static void put_callers(sunk_buffer *b, const stats_info_response_msg_t *r)
{
	put_array(b, r->rpc_user_size);
	for (uint32_t i = 0; i < r->rpc_user_size; i++) {
		put_array(b, 3);
		put_number(b, r->rpc_user_id[i]);
		put_number(b, r->rpc_user_cnt[i]);
		put_number(b, r->rpc_user_time[i]);
	}
}

static void put_numbers(sunk_buffer *b, const uint32_t *numbers, uint32_t count)
{
	put_array(b, numbers ? count : 0);
	for (uint32_t i = 0; numbers && i < count; i++)
		put_number(b, numbers[i]);
}

static void put_unsent(sunk_buffer *b, const stats_info_response_msg_t *r)
{
	put_array(b, r->rpc_queue_type_count);
	for (uint32_t i = 0; i < r->rpc_queue_type_count; i++) {
		put_array(b, 2);
		put_number(b, r->rpc_queue_type_id[i]);
		put_number(b, r->rpc_queue_count[i]);
	}
}

/* A list of texts, as the accounting records have it. */
static void put_list(sunk_buffer *b, list_t *texts)
{
	put_array(b, texts ? slurm_list_count(texts) : 0);
	list_itr_t *each = texts ? slurm_list_iterator_create(texts) : NULL;
	for (char *text; each && (text = slurm_list_next(each));)
		put_text(b, text);
	if (each)
		slurm_list_iterator_destroy(each);
}

#define IS_SET(number) ((number) != NO_VAL && (number) != INFINITE)
#define IS_TEXT(text) ((text) && *(text))

/* Whether an association has a limit, a share or a priority of its own: somebody has set it, and not us. */
static int sunk_is_limited(const slurmdb_assoc_rec_t *r)
{
	return IS_SET(r->grp_jobs) || IS_SET(r->grp_jobs_accrue) || IS_SET(r->grp_submit_jobs) || IS_SET(r->grp_wall)
	    || IS_SET(r->max_jobs) || IS_SET(r->max_jobs_accrue) || IS_SET(r->max_submit_jobs) || IS_SET(r->max_wall_pj)
	    || IS_SET(r->min_prio_thresh) || (IS_SET(r->priority) && r->priority) || (IS_SET(r->shares_raw) && r->shares_raw != 1)
	    || IS_TEXT(r->grp_tres) || IS_TEXT(r->grp_tres_mins) || IS_TEXT(r->grp_tres_run_mins)
	    || IS_TEXT(r->max_tres_pj) || IS_TEXT(r->max_tres_pn) || IS_TEXT(r->max_tres_mins_pj) || IS_TEXT(r->max_tres_run_mins);
}
