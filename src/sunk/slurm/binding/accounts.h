/* Associations, accounts and QOS: read from slurmdbd, and changed there.
 *
 * A change has a connection of its own, and is committed or not done at all: slurmdbd undoes what a connection has not
 * committed when it is closed. slurmdbd puts names into SQL as they come, so they are checked before they get here
 * (`orders.accounts`). Lists hold the caller's texts, which is why they are made without a destructor.
 *
 * What slurmdbd says to a refusal, beyond its number, is put into `said`.
 */

typedef struct {
	char *cluster;
	char *account;
	char *comment;		/* of associations; NULL: leave it */
	char *description;	/* of an account */
	int is_default;		/* the account becomes the default of these users */
	uint32_t default_qos;	/* NO_VAL: leave it. INFINITE: that of the account */
	char **users;
	uint32_t user_count;
	char **qos;		/* numbers. None: leave it, or that of the account; a single empty text: that of the account again */
	uint32_t qos_count;
	char **ids;		/* numbers of associations */
	uint32_t id_count;
} sunk_grant;

static list_t *sunk_list(char **texts, uint32_t count)
{
	if (!count)
		return NULL;
	list_t *made = slurm_list_create(NULL);
	for (uint32_t i = 0; i < count; i++)
		slurm_list_append(made, texts[i]);
	return made;
}

static void sunk_unlist(list_t *made)
{
	if (made)
		slurm_list_destroy(made);
}

static void *sunk_slurmdbd(int *code)
{
	errno = 0;
	void *connection = slurmdb_connection_get(NULL);
	*code = connection && !errno ? 0 : FAILED();
	if (*code && connection)
		slurmdb_connection_close(&connection);
	return *code ? NULL : connection;
}

/* Commit what went well. All else ends with the connection. */
static int sunk_settled(void *connection, int code)
{
	errno = 0;
	if (code == SLURM_NO_CHANGE_IN_DATA)	/* somebody has done the same a moment ago */
		code = 0;
	else if (!code && slurmdb_connection_commit(connection, 1))
		code = FAILED();
	slurmdb_connection_close(&connection);
	return code;
}

static int sunk_said(char *text, int code, sunk_buffer *said)
{
	if (text && code)
		put_cut(said, text, 1000);
	slurm_xfree((void **) &text);
	return code;
}

/* What was changed or removed, as texts; on a refusal they are what it is about. With a list there is an error only if it
 * is one of Slurm's: what sockets leave in errno on the way means nothing.
 */
static int sunk_changed(list_t *changed, int code, sunk_buffer *said)
{
	if (!changed)
		return code ? code : SLURM_ERROR;
	if (code < SLURM_UNEXPECTED_MSG_ERROR)
		code = 0;
	list_itr_t *texts = slurm_list_iterator_create(changed);
	char *first = slurm_list_next(texts);
	if (first && code)
		put_cut(said, first, 1000);
	slurm_list_iterator_destroy(texts);
	slurm_list_destroy(changed);
	return code;
}

static int sunk_table(list_t *found, void (*pack)(sunk_buffer *, void *), sunk_buffer *b)
{
	put_array(b, 2);
	put_array(b, slurm_list_count(found));
	list_itr_t *rows = slurm_list_iterator_create(found);
	for (void *r; (r = slurm_list_next(rows));)
		pack(b, r);
	slurm_list_iterator_destroy(rows);
	put_number(b, 0);
	slurm_list_destroy(found);
	return sunk_done(b);
}

static void sunk_pack_association(sunk_buffer *b, void *r)
{
	pack_associations(b, r);
}

static void sunk_pack_qos(sunk_buffer *b, void *r)
{
	pack_qos(b, r);
}

/* All associations of a cluster, as they are in the database: without what they have from their account. */
static int sunk_associations(char *cluster, sunk_buffer *b)
{
	int code;
	void *connection = sunk_slurmdbd(&code);
	if (!connection)
		return code;
	slurmdb_assoc_cond_t wanted = {
		.cluster_list = sunk_list(&cluster, 1),
		.flags = ASSOC_COND_FLAG_WOPI | ASSOC_COND_FLAG_WOPL | ASSOC_COND_FLAG_RAW_QOS,
	};
	list_t *found = slurmdb_associations_get(connection, &wanted);
	code = found ? 0 : FAILED();
	sunk_unlist(wanted.cluster_list);
	slurmdb_connection_close(&connection);
	return found ? sunk_table(found, sunk_pack_association, b) : code;
}

static int sunk_qos(sunk_buffer *b)
{
	int code;
	void *connection = sunk_slurmdbd(&code);
	if (!connection)
		return code;
	slurmdb_qos_cond_t wanted = { 0 };
	list_t *found = slurmdb_qos_get(connection, &wanted);
	code = found ? 0 : FAILED();
	slurmdb_connection_close(&connection);
	return found ? sunk_table(found, sunk_pack_qos, b) : code;
}

/* The users that slurmctld has from slurmdbd, each with the number that it believes them to have. */
static int sunk_known_users(sunk_buffer *b)
{
	assoc_mgr_info_request_msg_t wanted = { .flags = ASSOC_MGR_INFO_FLAG_USERS };
	assoc_mgr_info_msg_t *m = NULL;
	errno = 0;
	if (slurm_load_assoc_mgr_info(&wanted, &m) || !m)
		return FAILED();
	put_array(b, 2);
	put_array(b, m->user_list ? slurm_list_count(m->user_list) : 0);
	list_itr_t *rows = m->user_list ? slurm_list_iterator_create(m->user_list) : NULL;
	for (slurmdb_user_rec_t *r; rows && (r = slurm_list_next(rows));)
		pack_known(b, r);
	if (rows)
		slurm_list_iterator_destroy(rows);
	put_number(b, 0);
	slurm_free_assoc_mgr_info_msg(m);
	return sunk_done(b);
}

static slurmdb_user_rec_t sunk_user(void)
{
	slurmdb_user_rec_t user = { .admin_level = SLURMDB_ADMIN_NOTSET, .uid = NO_VAL };
#if SINCE(26, 5)
	user.def_qos_id = NO_VAL;
#endif
	return user;
}

static int sunk_add_account(const sunk_grant *g, sunk_buffer *said)
{
	int code;
	void *connection = sunk_slurmdbd(&code);
	if (!connection)
		return code;
	slurmdb_account_rec_t account = { .description = g->description, .organization = g->account };
	slurmdb_add_assoc_cond_t wanted;
	slurmdb_init_add_assoc_cond(&wanted, 0);
	wanted.acct_list = sunk_list((char **) &g->account, 1);
	wanted.cluster_list = sunk_list((char **) &g->cluster, 1);
	wanted.assoc.parent_acct = "root";
	errno = 0;
	char *text = slurmdb_accounts_add_cond(connection, &wanted, &account);
	code = sunk_said(text, errno, said);
	sunk_unlist(wanted.acct_list);
	sunk_unlist(wanted.cluster_list);
	return sunk_settled(connection, code);
}

/* An association in the account for each of the users, who are added if slurmdbd does not know them. */
static int sunk_add_users(const sunk_grant *g, sunk_buffer *said)
{
	int code;
	void *connection = sunk_slurmdbd(&code);
	if (!connection)
		return code;
	slurmdb_user_rec_t user = sunk_user();
	slurmdb_add_assoc_cond_t wanted;
	slurmdb_init_add_assoc_cond(&wanted, 0);
	user.default_acct = g->is_default ? g->account : NULL;
	wanted.acct_list = sunk_list((char **) &g->account, 1);
	wanted.cluster_list = sunk_list((char **) &g->cluster, 1);
	wanted.user_list = sunk_list(g->users, g->user_count);
	wanted.assoc.comment = g->comment;
	wanted.assoc.def_qos_id = g->default_qos;
	wanted.assoc.qos_list = sunk_list(g->qos, g->qos_count);
	errno = 0;
	char *text = slurmdb_users_add_cond(connection, &wanted, &user);
	code = sunk_said(text, errno, said);
	sunk_unlist(wanted.acct_list);
	sunk_unlist(wanted.cluster_list);
	sunk_unlist(wanted.user_list);
	sunk_unlist(wanted.assoc.qos_list);
	return sunk_settled(connection, code);
}

/* Those that have one of the numbers and are of one of the users in the account. Without users slurmdbd would take it for
 * the account itself.
 */
static slurmdb_assoc_cond_t sunk_chosen(const sunk_grant *g)
{
	return (slurmdb_assoc_cond_t) {
		.acct_list = sunk_list((char **) &g->account, 1),
		.cluster_list = sunk_list((char **) &g->cluster, 1),
		.id_list = sunk_list(g->ids, g->id_count),
		.user_list = sunk_list(g->users, g->user_count),
	};
}

static void sunk_unchoose(slurmdb_assoc_cond_t *chosen)
{
	sunk_unlist(chosen->acct_list);
	sunk_unlist(chosen->cluster_list);
	sunk_unlist(chosen->id_list);
	sunk_unlist(chosen->user_list);
}

static int sunk_change_associations(const sunk_grant *g, sunk_buffer *said)
{
	int code;
	if (!g->user_count || !g->id_count)
		return EINVAL;
	void *connection = sunk_slurmdbd(&code);
	if (!connection)
		return code;
	slurmdb_assoc_cond_t chosen = sunk_chosen(g);
	slurmdb_assoc_rec_t wanted;
	slurmdb_init_assoc_rec(&wanted, 0);
	wanted.comment = g->comment;
	wanted.def_qos_id = g->default_qos;
	wanted.qos_list = sunk_list(g->qos, g->qos_count);
	errno = 0;
	list_t *changed = slurmdb_associations_modify(connection, &chosen, &wanted);
	code = sunk_changed(changed, errno, said);
	sunk_unlist(wanted.qos_list);
	sunk_unchoose(&chosen);
	return sunk_settled(connection, code);
}

static int sunk_remove_associations(const sunk_grant *g, sunk_buffer *said)
{
	int code;
	if (!g->user_count || !g->id_count)
		return EINVAL;
	void *connection = sunk_slurmdbd(&code);
	if (!connection)
		return code;
	slurmdb_assoc_cond_t chosen = sunk_chosen(g);
	errno = 0;
	list_t *removed = slurmdb_associations_remove(connection, &chosen);
	code = sunk_changed(removed, errno, said);
	sunk_unchoose(&chosen);
	return sunk_settled(connection, code);
}

static int sunk_set_default_account(const sunk_grant *g, sunk_buffer *said)
{
	int code;
	if (!g->user_count)
		return EINVAL;
	void *connection = sunk_slurmdbd(&code);
	if (!connection)
		return code;
	slurmdb_assoc_cond_t chosen = {
		.cluster_list = sunk_list((char **) &g->cluster, 1),
		.user_list = sunk_list(g->users, g->user_count),
	};
	slurmdb_user_cond_t whom = { .admin_level = SLURMDB_ADMIN_NOTSET, .assoc_cond = &chosen };
	slurmdb_user_rec_t user = sunk_user();
	user.default_acct = g->account;
	errno = 0;
	list_t *changed = slurmdb_users_modify(connection, &whom, &user);
	code = sunk_changed(changed, errno, said);
	sunk_unchoose(&chosen);
	return sunk_settled(connection, code);
}
