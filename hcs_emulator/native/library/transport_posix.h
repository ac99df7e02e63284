/* Declarations shared by transport_posix.c and start_posix.c. */
#ifndef TRANSPORT_POSIX_H
#define TRANSPORT_POSIX_H

#include <stdbool.h>
#include <sys/un.h>

#include "transport.h"

int connect_once(const struct sockaddr_un *address); /* the descriptor, or -1 and errno */

/* Starts the service for the directory and waits until it listens; on failure false, with a message in reason. */
bool start_service(const char *directory, const struct sockaddr_un *address, char reason[TRANSPORT_REASON]);

#endif
