/* binary-service.c - three clients of the binary protocol, and one of the text (see service.c). */
#include "fuzz/service.h"

const char *const service_clients[SERVICE_CLIENTS] = {"counter", "counter", "counter",
                                                      "poolcounter"};
