noinst_LIBRARIES += libservice.a
libservice_a_SOURCES = \
	src/service/resource.h \
	src/service/service.h src/service/service.c \
	src/service/registry.c \
	src/service/monitor.h src/service/monitor.c \
	src/service/table_resource.h src/service/table_resource.c \
	src/service/table_monitor.c \
	src/service/state.c \
	src/service/pool_members.h src/service/pool_members.c \
	src/service/pool_options.h src/service/pool_options.c \
	src/service/pools_config.h src/service/pools_config.c \
	src/service/pools.h src/service/pools.c \
	src/service/pool_verbs_internal.h src/service/pool_verbs.h src/service/pool_verbs.c \
	src/service/pool_lines.c src/service/pool_list.c \
	src/service/pools_internal.h src/service/pools_monitor.c \
	src/service/pools_api.c src/service/pools_change.c \
	src/service/beanstalk.h src/service/beanstalk.c src/service/job_session.h src/service/job_verbs.c \
	src/service/job_commits.c src/service/job_store.c \
	src/service/job_backup.h src/service/job_backup.c \
	src/service/job_puts.c src/service/job_ready.c src/service/job_lists.c src/service/job_text.c \
	src/service/tubes.c \
	src/service/tubes_monitor.h src/service/tubes_monitor.c \
	src/service/jobs_api.c src/service/jobs_api_change.c \
	src/service/poolcounter.c src/service/poolcounter.h src/service/text_session.h \
	src/service/poolcounter_state.c \
	src/service/arbiter.h src/service/arbiter.c src/service/wait.h \
	src/service/cluster.h src/service/cluster.c src/service/cluster_upgrade.c src/service/cluster_wires.c src/service/cluster_options.c src/service/cluster_monitor.c src/service/cluster_copies.c \
	src/service/counter.c
