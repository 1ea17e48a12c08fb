# libcounter: counter.h and what is behind it, shared and static. It has a copy of the files of proto
# and base that it uses, for programs that have neither. Each object is compiled for both, with hidden
# symbols. The archive is one object, in which these are local.
libcounter_files = \
	lib/answer.h lib/answer.c \
	lib/args.h lib/args.c \
	lib/calls.c \
	lib/claim.h lib/claim.c \
	lib/client.h lib/client.c \
	lib/failure.h lib/failure.c \
	lib/hold.h lib/hold.c \
	lib/job.c \
	lib/link.h lib/link.c lib/message.c \
	lib/op.h lib/op.c \
	lib/order.c \
	lib/put.c \
	lib/settings.h lib/settings.c \
	lib/tls.h lib/tls.c
libcounter_borrowed = \
	proto/beanstalk.c proto/beanstalk_replies.c proto/beanstalk_yaml.c \
	proto/counter.c proto/grammar.c proto/line.c \
	proto/pools.c \
	src/base/check.c src/base/clock.c src/base/number.c src/base/text.c src/base/utf8.c
EXTRA_DIST += lib/README.md lib/libcounter.map \
	lib/examples/epoll.c \
	lib/examples/example.h \
	lib/examples/libevent.c \
	lib/examples/lock.c \
	lib/examples/member.c \
	lib/examples/poll.c \
	lib/examples/put.c \
	lib/examples/units.c \
	lib/examples/worker.c

if CLIENT
noinst_LIBRARIES += lib/libparts.a
lib_libparts_a_SOURCES = lib/counter.h $(libcounter_files) $(libcounter_borrowed)
lib_libparts_a_CFLAGS = $(filter-out $(STEPS_CFLAGS),$(AM_CFLAGS)) $(LIBSSL_CFLAGS) -fPIC -fvisibility=hidden
libcounter_whole = -Wl,--whole-archive lib/libparts.a -Wl,--no-whole-archive
libcounter_so = libcounter.so.1.0.0

include_HEADERS = lib/counter.h
libcounterdir = $(libdir)
nodist_libcounter_DATA = libcounter.a $(libcounter_so)
pkgconfigdir = $(libdir)/pkgconfig
nodist_pkgconfig_DATA = lib/libcounter.pc
CLEANFILES += libcounter.a libcounter.so libcounter.so.1 $(libcounter_so) lib/whole.o

lib/whole.o: lib/libparts.a
	$(AM_V_GEN)$(CC) -r -nostdlib -o $@.new $(libcounter_whole) && \
	    $(OBJCOPY) --localize-hidden $@.new $@ && rm -f $@.new
libcounter.a: lib/whole.o
	$(AM_V_AR)rm -f $@ && $(AR) $(ARFLAGS) $@ lib/whole.o && $(RANLIB) $@
# Libraries with a sanitizer's calls find them in the program.
$(libcounter_so): lib/libparts.a lib/libcounter.map
	$(AM_V_CCLD)$(CC) $(CFLAGS) $(AM_LDFLAGS) $(LDFLAGS) -shared -Wl,-soname,libcounter.so.1 \
	    -Wl,--version-script=$(srcdir)/lib/libcounter.map $(if $(SAN_CFLAGS),,-Wl$(comma)-z$(comma)defs) \
	    -o $@ $(libcounter_whole) -Wl,--as-needed $(LIBSSL_LIBS)
comma = ,

# Plays the stories of clients/.
check_PROGRAMS += lib/agent
lib_agent_SOURCES = lib/agent.c
lib_agent_CFLAGS = $(AM_CFLAGS) $(CLIENT_CFLAGS)
lib_agent_LDADD = libcounter.a $(CLIENT_LIBS)

# Each function is a name of the manual, too. make install-libcounter installs the library alone.
functions = $$(sed -n 's/^ *\(counter_[a-z_]*\);$$/\1/p' $(srcdir)/lib/libcounter.map)
install-libcounter: install-includeHEADERS install-nodist_libcounterDATA install-nodist_pkgconfigDATA install-libcounter-links
	$(INSTALL_DATA) $(srcdir)/man/libcounter.3 "$(DESTDIR)$(man3dir)"
install-exec-local: install-libcounter-links
install-libcounter-links:
	$(MKDIR_P) "$(DESTDIR)$(libdir)" "$(DESTDIR)$(man3dir)"
	for link in libcounter.so.1 libcounter.so; do \
	    ln -sf $(libcounter_so) "$(DESTDIR)$(libdir)/$$link" || exit 1; \
	done
	for name in $(functions); do \
	    ln -sf libcounter.3 "$(DESTDIR)$(man3dir)/$$name.3" || exit 1; \
	done
uninstall-local:
	rm -f "$(DESTDIR)$(libdir)/libcounter.so" "$(DESTDIR)$(libdir)/libcounter.so.1"
	for name in $(functions); do rm -f "$(DESTDIR)$(man3dir)/$$name.3"; done
endif
.PHONY: install-libcounter install-libcounter-links
