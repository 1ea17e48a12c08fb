# A protocol in one file, and a daemon that has it: nothing of src/ knows of it.
check_PROGRAMS += t/echo/counterd-echo
t_echo_counterd_echo_SOURCES = src/daemon/main.c t/echo/echo.c t/echo/registry.c
t_echo_counterd_echo_CFLAGS = $(AM_CFLAGS)
t_echo_counterd_echo_LDADD = $(counterd_LDADD)

TESTS += t/echo/test_echo.py
EXTRA_DIST += t/echo/test_echo.py
