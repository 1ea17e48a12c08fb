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
