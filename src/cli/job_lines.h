/*
 * job_lines.h - jobs as lines of JSON, which `counterctl jobs` exports and imports.
 *
 *     {"tube":"mail","id":7,"state":"ready","pri":0,"delay":0,"ttr":60,"try":1,"body":"..."}
 *
 * A body that is no UTF-8 is "body64" instead, in base64.
 */
#ifndef CLI_JOB_LINES_H
#define CLI_JOB_LINES_H

#include "base/text.h"
#include "proto/beanstalk.h"

#include <jansson.h>

/* A job to import. */
struct job_line {
    struct text tube, body;
    uint32_t pri, delay_s, ttr_s;
    bool is_buried; /* or abandoned */
};

/* Sets "body" or "body64" in an object. */
void job_line_set_body(json_t *object, struct bytes body);

/* Parses a line. Returns false when it is no job; *reason_r then has the reason. *job_r must be
   empty before, and freed in both cases. */
bool job_line_parse(struct bytes line, struct job_line *job_r, struct text *reason_r) MUST_USE;

void job_line_free(struct job_line *job);

/* A dictionary of the server as an object: numbers are numbers, all else is text. */
json_t *job_line_dictionary(struct bytes dictionary);

#endif
