/* The tables of requests and of callers within the statistics. */

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
