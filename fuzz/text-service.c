/* text-service.c - three clients of the text protocol, and one of the binary (see service.c). */
#include "fuzz/service.h"

const char *const service_clients[SERVICE_CLIENTS] = {"poolcounter", "poolcounter", "poolcounter",
                                                      "counter"};
