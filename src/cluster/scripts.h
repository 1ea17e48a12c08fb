/*
 * The scripts that run in the engine. src/cluster/scripts/ has their texts, which the build embeds
 * (scripts.c); engine.md says what each takes and answers. Constants: any thread may read them.
 */
#ifndef CLUSTER_SCRIPTS_H
#define CLUSTER_SCRIPTS_H

#include <stddef.h>

enum cluster_script {
    CLUSTER_SCRIPT_OPEN,
    CLUSTER_SCRIPT_CALL,
    CLUSTER_SCRIPT_GIVE,
    CLUSTER_SCRIPT_READY,
    CLUSTER_SCRIPT_BEAT,
    CLUSTER_SCRIPT_REAP,
    CLUSTER_SCRIPT_GRACE,
    CLUSTER_SCRIPT_LEAVE,
    CLUSTER_SCRIPT_LOOK,
    CLUSTER_SCRIPT_COUNT,
};

struct cluster_script_text {
    const char *name; /* "open" */
    const char *text; /* what SCRIPT LOAD takes; ends with a NUL that `length` does not count */
    size_t length;
};

extern const struct cluster_script_text cluster_scripts[CLUSTER_SCRIPT_COUNT];

#endif
