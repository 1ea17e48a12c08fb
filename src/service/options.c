/*
 * options.c - the registry of options: which protocols and resources bring some. A test may link
 * another.
 */
#include "service/service.h"

static const struct option_protocol *const protocols[] = {
    &poolcounter_options,
    &counter_options,
    NULL,
};

static const struct option_group *const groups[] = {
    &table_options,
    NULL,
};

const struct option_registry option_registry = {.protocols = protocols, .groups = groups};
