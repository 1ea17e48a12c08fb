# The sample is an example, and becomes this machine's file only where that has none: what has been
# edited is neither overwritten nor removed.
examplesdir = $(docdir)/examples
dist_examples_DATA = conf/counter.conf
sample_conf = $(srcdir)/conf/counter.conf
machine_conf = $(DESTDIR)$(sysconfdir)/counter.conf

install-data-hook:
	@if test -e "$(machine_conf)" || test -h "$(machine_conf)"; then \
	    echo "$(machine_conf) is there already, and stays as it is"; \
	else \
	    $(MKDIR_P) "$(DESTDIR)$(sysconfdir)" && \
	    $(INSTALL_DATA) "$(sample_conf)" "$(machine_conf)"; \
	fi

uninstall-hook:
	@if cmp -s "$(sample_conf)" "$(machine_conf)"; then rm -f "$(machine_conf)"; fi

# The units name the daemon where this build installs it.
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
