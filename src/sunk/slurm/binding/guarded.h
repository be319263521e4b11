/* Tell Slurm something about one node, if that node is as it was when the change was decided upon.
 *
 * Slurm has no "only if". So the node is read, told and read again without Python in between, and two more threads read
 * it all the while: what somebody else has put on between the first read and the change is overwritten by the change,
 * and on most releases no trace of it is left, but one of these reads has seen it. They begin first and end last.
 *
 * The buffer holds what was seen, like a table of nodes: the node before, what others had put on meanwhile, and the node
 * after. If it was not as expected nothing is sent, and there is only the first of these. If something was sent and then
 * Slurm fell silent, there is no last one, and the error takes the place of the table's time: what was seen must not be lost.
 */

#define SUNK_WATCHERS 2
#define SUNK_MOST_SEEN 4
#define SUNK_SETTLED(state) ((state) != NODE_STATE_DOWN && (state) != NODE_STATE_UNKNOWN && (state) != NODE_STATE_FUTURE)

typedef struct {
	const char *reason;
	uint32_t state;
	uint32_t flags;		/* those of the state that have to be the same */
	int64_t reason_time;
} sunk_expected;

typedef struct {
	const sunk_change *change;
	const sunk_expected *expected;
	int end;
	int count;
	node_info_msg_t *seen[SUNK_MOST_SEEN];
	pthread_t thread;
} sunk_watch;

static int sunk_is_text(const char *found, const char *text)
{
	return !strcmp(found ? found : "", text ? text : "");
}

static node_info_msg_t *sunk_one_node(const char *name)
{
	node_info_msg_t *m = NULL;
	errno = 0;
	if (slurm_load_node_single(&m, (char *) name, EVERYTHING | SHOW_MIXED))
		return NULL;
	if (m && m->record_count == 1 && m->node_array[0].name)
		return m;
	slurm_free_node_info_msg(m);
	errno = ESLURM_INVALID_NODE_NAME;
	return NULL;
}

static int sunk_is_expected(const node_info_t *r, const sunk_expected *e)
{
	return (r->node_state & e->flags) == (e->state & e->flags)
	    && SUNK_SETTLED(r->node_state & NODE_STATE_BASE) == SUNK_SETTLED(e->state & NODE_STATE_BASE)
	    && r->reason_time == e->reason_time && sunk_is_text(r->reason, e->reason);
}

/* Whether a row shows what neither was expected nor comes from the change itself. Somebody may drain with the very text
 * that an earlier drain has left.
 */
static int sunk_is_others(const node_info_t *r, const sunk_watch *w)
{
	const sunk_expected *e = w->expected;
	uint32_t ours = w->change->state == NO_VAL ? 0 : w->change->state;
	uint32_t added = r->node_state & e->flags & ~e->state;
	int from_us = w->change->reason && sunk_is_text(r->reason, w->change->reason);
	int as_it_was = !added && r->reason_time == e->reason_time && sunk_is_text(r->reason, e->reason);
	return (added & ~ours) || !(from_us || as_it_was || sunk_is_text(r->reason, NULL));
}

static void *sunk_watch_node(void *of)
{
	sunk_watch *w = of;
	while (!__atomic_load_n(&w->end, __ATOMIC_ACQUIRE) && w->count < SUNK_MOST_SEEN) {
		node_info_msg_t *m = sunk_one_node(w->change->names);
		if (!m)
			break;
		if (sunk_is_others(&m->node_array[0], w))
			w->seen[w->count++] = m;
		else
			slurm_free_node_info_msg(m);
	}
	return NULL;
}

static void sunk_put_seen(sunk_buffer *b, node_info_msg_t **seen, int count)
{
	for (int i = 0; i < count; i++) {
		pack_nodes(b, &seen[i]->node_array[0]);
		slurm_free_node_info_msg(seen[i]);
	}
}

static int sunk_update_if(const sunk_change *c, const sunk_expected *e, sunk_buffer *b)
{
	sunk_watch watches[SUNK_WATCHERS];
	node_info_msg_t *before, *after = NULL;
	int code, sent = 0, began = 0, count = 1;
	for (; began < SUNK_WATCHERS; began++) {
		watches[began] = (sunk_watch) { .change = c, .expected = e };
		if (pthread_create(&watches[began].thread, NULL, sunk_watch_node, &watches[began]))
			break;
	}
	before = sunk_one_node(c->names);
	code = before ? 0 : FAILED();
	if (before && sunk_is_expected(&before->node_array[0], e)) {
		sent = 1;
		code = sunk_update_nodes(c);
		after = code ? NULL : sunk_one_node(c->names);
		code = code || after ? code : FAILED();
	}
	for (int i = 0; i < began; i++)
		__atomic_store_n(&watches[i].end, 1, __ATOMIC_RELEASE);
	for (int i = 0; i < began; i++) {
		pthread_join(watches[i].thread, NULL);
		if (!sent)	/* nothing was sent, so nothing of others was overwritten */
			while (watches[i].count)
				slurm_free_node_info_msg(watches[i].seen[--watches[i].count]);
		count += watches[i].count;
	}
	put_array(b, 2);
	put_array(b, before ? count + !!after : 0);
	sunk_put_seen(b, &before, !!before);
	for (int i = 0; i < began; i++)
		sunk_put_seen(b, watches[i].seen, watches[i].count);
	sunk_put_seen(b, &after, !!after);
	put_number(b, !sent ? 0 : code < 0 ? SLURM_UNEXPECTED_MSG_ERROR : code);	/* -1: an error without a number */
	return code && !sent ? code : sunk_done(b);
}
