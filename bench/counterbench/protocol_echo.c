/*
 * protocol_echo.c - what a server is sent that gives every byte back: the requests of the other
 * protocols, of which the answers are as long. The least that a server of such packets can cost.
 */
#include "bench/counterbench/protocol.h"
#include "bench/counterbench/protocol_codecs.h"

#define ASKS (ASK_BIT(ASK_ACQUIRE) | ASK_BIT(ASK_RELEASE))

const struct protocol protocol_echo_text = {
    .name = "echo-text",
    .port = 7531,
    .asks = ASKS,
    .help = "the requests of text, and as many bytes back",
    .compose = text_compose,
    .is_echo = true,
};

const struct protocol protocol_echo_binary = {
    .name = "echo-binary",
    .port = 11215,
    .asks = ASKS,
    .help = "the requests of binary, and as many bytes back",
    .compose = binary_compose,
    .is_echo = true,
};
