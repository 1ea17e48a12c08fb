dist_sysconf_DATA = conf/counter.conf
