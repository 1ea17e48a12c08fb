dist_man_MANS += man/counterd.8 man/counter.conf.5 man/counterd-admin.7
