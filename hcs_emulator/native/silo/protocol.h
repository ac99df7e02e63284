/* Messages between the service and a silo; service/silo/channel.py is the other side. All numbers are little-endian. */
#ifndef PROTOCOL_H
#define PROTOCOL_H

#include <stdint.h>

enum { SILO_SOCKET = 3, SILO_COMMANDS = 4 }; /* descriptors the program is started with */
enum { LARGEST_REQUEST = 1024 * 1024 };

enum request_kind { SPAWN = 1, SIGNAL = 2, BIND = 3, UNBIND = 4, THAW = 5 };
enum reply_kind { HELLO = 1, READY = 2, DONE = 3, EXITED = 4 };
enum spawn_flag { WITH_STDIN = 1, WITH_STDOUT = 2, WITH_STDERR = 4, WITH_CONSOLE = 8 };
enum bind_flag { READ_ONLY = 1 };

/* The stage at which a request failed: indices into STAGES of service/silo/channel.py. */
enum stage {
    AT_NOTHING,
    AT_NAMESPACES,
    AT_ROOT,
    AT_PROC,
    AT_DEV,
    AT_HOSTNAME,
    AT_CONSOLE,
    AT_FORK,
    AT_USER,
    AT_DIRECTORY,
    AT_LOOKUP,
    AT_EXEC,
    AT_BIND,
};

/* Followed by NUL-terminated strings. SPAWN: directory, user, tail of the command line, programs,
 * arguments, variables. BIND and UNBIND: target.
 * Descriptors: SPAWN one per WITH_STD* flag; BIND the detached mount; THAW the file to write THAWED to. */
struct request {
    uint32_t kind, serial, flags, number;
    uint16_t height, width;
    uint32_t programs, arguments, variables;
};

/* HELLO: number is the pid of the silo. EXITED: number is the wait status, peak_memory in KiB.
 * DONE of a SPAWN carries the console's master, if there is one, and credentials that name the process. */
struct reply {
    uint32_t kind, serial;
    int32_t error;
    uint32_t stage, number, exit_code, peak_memory;
};

#endif
