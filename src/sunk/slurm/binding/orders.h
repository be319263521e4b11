/* Telling Slurm what to do. Each gives 0 or an error number; a NULL text means: leave it as it is. */

typedef struct {
	const char *names;
	uint32_t state;		/* NO_VAL: leave it */
	const char *reason, *extra, *comment, *features, *gres, *topology;
} sunk_change;

typedef struct {
	uint32_t job;
	uint32_t code;		/* taken, but pending or held for this reason */
	sunk_buffer nodes;
} sunk_given;

static int sunk_reconfigure(void)
{
	errno = 0;
	return slurm_reconfigure() ? FAILED() : 0;
}

static update_node_msg_t sunk_message(const sunk_change *c)
{
	update_node_msg_t m;
	slurm_init_update_node_msg(&m);
	m.node_names = (char *) c->names;
	m.node_state = c->state;
	m.reason = (char *) c->reason;
	m.extra = (char *) c->extra;
	m.comment = (char *) c->comment;
	m.features = m.features_act = (char *) c->features;
	m.gres = (char *) c->gres;
#if SINCE(25, 5)
	m.topology_str = (char *) c->topology;
#endif
	return m;
}

static int sunk_update_nodes(const sunk_change *c)
{
	update_node_msg_t m = sunk_message(c);
	errno = 0;
	return slurm_update_node(&m) ? FAILED() : 0;
}

static int sunk_create_nodes(const sunk_change *c)
{
	update_node_msg_t m = sunk_message(c);
	errno = 0;
	if (!m.extra || !*m.extra)
		return EINVAL;	/* slurmctld would end by it */
	return slurm_create_node(&m) ? FAILED() : 0;
}

static int sunk_delete_nodes(const sunk_change *c)
{
	update_node_msg_t m = sunk_message(c);
	errno = 0;
	return slurm_delete_node(&m) ? FAILED() : 0;
}

static int sunk_submit(job_desc_msg_t *d, sunk_given *g)
{
	submit_response_msg_t *m = NULL;
	errno = 0;
	if (slurm_submit_batch_job(d, &m) || !m)
		return FAILED();
	g->job = JOB_OF(m);
	g->code = m->error_code;
	slurm_free_submit_response_response_msg(m);
	return 0;
}

static int sunk_allocate(job_desc_msg_t *d, sunk_given *g)
{
	resource_allocation_response_msg_t *m = NULL;
	errno = 0;
	if (slurm_allocate_resources(d, &m) || !m)
		return FAILED();
	g->job = JOB_OF(m);
	g->code = m->error_code;
	put_text(&g->nodes, m->node_list);
	slurm_free_resource_allocation_response_msg(m);
	return sunk_done(&g->nodes);
}

static int sunk_update_job(job_desc_msg_t *d, uint32_t job)
{
	errno = 0;
	JOB_OF(d) = job;
	return slurm_update_job(d) ? FAILED() : 0;
}

static int sunk_kill_job(uint32_t job, uint16_t number, uint16_t flags)
{
	errno = 0;
	return slurm_kill_job(job, number, flags) ? FAILED() : 0;
}

static int sunk_kill_step(uint32_t job, uint32_t step, uint16_t number, uint16_t flags)
{
	errno = 0;
#if SINCE(25, 11)
	slurm_step_id_t id = SLURM_STEP_ID_INITIALIZER;
	id.job_id = job;
	id.step_id = step;
	return slurm_kill_job_step(&id, number, flags) ? FAILED() : 0;
#else
	return slurm_kill_job_step(job, step, number, flags) ? FAILED() : 0;
#endif
}

static int sunk_requeue(uint32_t job, uint32_t flags)
{
	errno = 0;
	return slurm_requeue(job, flags) ? FAILED() : 0;
}
