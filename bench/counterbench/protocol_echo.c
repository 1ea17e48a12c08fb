/*
 * protocol_echo.c - for a server that sends every byte back. The requests are those of the other
 * protocols, and answers are as long. This is the least that a server of such packets can cost.
 */
#include "bench/counterbench/protocol.h"
#include "bench/counterbench/protocol_codecs.h"

#define ASKS (ASK_BIT(ASK_ACQUIRE) | ASK_BIT(ASK_RELEASE))

const struct protocol protocol_echo_text = {
    .name = "echo-text",
    .port = 7531,
    .asks = ASKS,
    .help = "sends the requests of \"text\" to an echo server, which returns them",
    .compose = text_compose,
    .is_echo = true,
};

const struct protocol protocol_echo_binary = {
    .name = "echo-binary",
    .port = 11215,
    .asks = ASKS,
    .help = "sends the requests of \"binary\" to an echo server, which returns them",
    .compose = binary_compose,
    .is_echo = true,
};
