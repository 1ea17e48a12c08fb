# Installs the sample as an example, and as this machine's configuration if there is none. An edited
# file is neither overwritten nor removed.
examplesdir = $(docdir)/examples
dist_examples_DATA = conf/counter.conf
sample_conf = $(srcdir)/conf/counter.conf
machine_conf = $(DESTDIR)$(sysconfdir)/counter.conf

install-data-hook:
	@if test -e "$(machine_conf)" || test -h "$(machine_conf)"; then \
	    echo "$(machine_conf) exists, and is not changed"; \
	else \
	    $(MKDIR_P) "$(DESTDIR)$(sysconfdir)" && \
	    $(INSTALL_DATA) "$(sample_conf)" "$(machine_conf)"; \
	fi

uninstall-hook:
	@if cmp -s "$(sample_conf)" "$(machine_conf)"; then rm -f "$(machine_conf)"; fi

# The unit gets the daemon's path in this build.
EXTRA_DIST += conf/systemd/counterd.service conf/systemd/counterd.socket conf/sysusers/counterd.conf
if INSTALL_UNITS
nodist_systemdsystemunit_DATA = counterd.service conf/systemd/counterd.socket
CLEANFILES += counterd.service
counterd.service: conf/systemd/counterd.service Makefile
	$(AM_V_GEN)sed 's|/usr/sbin/counterd|$(sbindir)/counterd|' \
	    $(srcdir)/conf/systemd/counterd.service >$@
endif
if INSTALL_SYSUSERS
nodist_sysusers_DATA = conf/sysusers/counterd.conf
endif
