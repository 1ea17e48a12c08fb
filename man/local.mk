dist_man_MANS += man/counterd.8 man/counter.conf.5 man/counterd-admin.7 man/counterd-cluster.7
if CLIENT
dist_man_MANS += man/counterctl.1 man/counterbench.1 man/libcounter.3
else
EXTRA_DIST += man/counterctl.1 man/counterbench.1 man/libcounter.3
endif
