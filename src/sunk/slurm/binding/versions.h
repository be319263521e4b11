/* All that differs between the Slurm releases we are compiled against, and what they export without declaring it. */

/* From 25.11 on some calls take a step id; with this they still take the number of a job. */
#define SLURM_BACKWARD_COMPAT 1

#include <errno.h>
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <slurm/slurm_version.h>
#include <slurm/slurmdb.h>

#define SINCE(major, minor) (SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(major, minor, 0))

extern void slurm_free_stats_response_msg(stats_info_response_msg_t *message);
extern const char *slurm_job_state_reason_string(enum job_state_reason reason);
extern void slurm_xfree(void **place);
extern int slurm_addto_step_list(list_t *steps, char *numbers);

#if SINCE(25, 11)
#define JOB_OF(message) ((message)->step_id.job_id)
#else
#define JOB_OF(message) ((message)->job_id)
#endif

#if SINCE(26, 5)
#define FREE_CONFIGURATION slurm_free_conf
#else
#define FREE_CONFIGURATION slurm_free_ctl_conf
#endif

typedef struct {
	uint16_t cpus;
	uint64_t memory;
	char *tres;
} node_use;

/* What jobs have of a node. `tres` is ours to free on older releases only, so sunk_unuse() has to know. */
static node_use sunk_use(const node_info_t *n)
{
	node_use use = { 0 };
#if SINCE(25, 5)
	use = (node_use) { n->alloc_cpus, n->alloc_memory, n->alloc_tres_fmt_str };
#else
	if (n->select_nodeinfo) {
		slurm_get_select_nodeinfo(n->select_nodeinfo, SELECT_NODEDATA_SUBCNT, NODE_STATE_ALLOCATED, &use.cpus);
		slurm_get_select_nodeinfo(n->select_nodeinfo, SELECT_NODEDATA_MEM_ALLOC, NODE_STATE_ALLOCATED, &use.memory);
		slurm_get_select_nodeinfo(n->select_nodeinfo, SELECT_NODEDATA_TRES_ALLOC_FMT_STR, NODE_STATE_ALLOCATED, &use.tres);
	}
#endif
	return use;
}

static void sunk_unuse(node_use *use)
{
#if !SINCE(25, 5)
	slurm_xfree((void **) &use->tres);
#endif
	(void) use;
}
