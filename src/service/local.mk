noinst_LIBRARIES += libservice.a
libservice_a_SOURCES = \
	src/service/resource.h \
	src/service/asked.h src/service/asked.c \
	src/service/service.h src/service/service.c \
	src/service/registry.c \
	src/service/seen.h src/service/seen.c \
	src/service/table_resource.h src/service/table_resource.c \
	src/service/table_seen.c \
	src/service/state.c \
	src/service/poolcounter.c src/service/poolcounter.h \
	src/service/counter.c
