noinst_LIBRARIES += libservice.a
libservice_a_SOURCES = \
	src/service/service.h src/service/service.c \
	src/service/options.c \
	src/service/state.c \
	src/service/poolcounter.c \
	src/service/counter.c
