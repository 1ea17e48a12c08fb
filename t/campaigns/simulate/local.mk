# The server of locks beside a model, with a network and clocks that a seed controls.
TESTS += t/campaigns/simulate/test_simulate.py
EXTRA_DIST += t/campaigns/simulate/test_simulate.py

check_PROGRAMS += t/campaigns/simulate/simulate
t_campaigns_simulate_simulate_SOURCES = t/campaigns/simulate/simulate.c $(fakenet_server_sources) $(table_model_sources) $(locks_model_sources)
t_campaigns_simulate_simulate_LDFLAGS = $(t_scenario_fakenet_LDFLAGS)
t_campaigns_simulate_simulate_LDADD = $(t_scenario_fakenet_LDADD)

# The admin interface without memory.
check_PROGRAMS += t/campaigns/simulate/admin
t_campaigns_simulate_admin_SOURCES = t/campaigns/simulate/admin.c t/campaigns/simulate/unchecked.h
t_campaigns_simulate_admin_CFLAGS = $(UNIT_CFLAGS) $(JANSSON_CFLAGS)
t_campaigns_simulate_admin_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc
t_campaigns_simulate_admin_LDADD = $(admin_test_libs) -lm
