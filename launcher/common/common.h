/* What the launchers of Linux and Windows share: parsers and encoders that work in memory and make no system calls.

   The C code handles only input for which it does exactly what Python does. All other input is "unsupported": the launcher
   has then changed nothing, and Python runs the command (the fallback). */
#ifndef COMMON_H
#define COMMON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NAME "containerd-shim-runhcs-v1"
#define SANDBOX_CONTROLLER "io.containerd.sandbox.controller.v1.shim"
#define MAX_ARGUMENTS 256
#define MAX_SPEC (1 << 20)
#define MAX_OPTIONS (64 << 10)

/* -- the command line: command_line.c ----------------------------------------------------------------------------- */

struct command {
    const char *action, *namespace, *address, *publish, *id, *bundle;
    bool debug;
};

/* False if it is unsupported. */
bool parse_command_line(int argc, char **argv, struct command *command);
/* Whether the path ends in …/<plugin>/<namespace>/<id>: containerd's Sandbox service creates the sandbox. */
bool is_sandbox_bundle(const char *bundle);

bool is_valid_id(const char *text, size_t length); /* letters, digits, "-_.", but not "." or ".." */
bool is_printable_ascii(const char *text, size_t length);

/* -- annotations in config.json: spec.c --------------------------------------------------------------------------- */

enum role { UNSUPPORTED, STANDALONE, SANDBOX, MEMBER };
/* Which pods share a daemon; the first if nothing says so. */
enum scope { NO_SCOPE, POD_SCOPE, NAMESPACE_SCOPE, NODE_SCOPE };

#define SHIM_SCOPE "io.microsoft.container.shim-scope"

/* False if it is not the name of a scope. */
bool parse_scope(const char *text, size_t length, enum scope *scope);
/* The role of the container in a pod. `sandbox` receives the id of the pod's sandbox, if there is one. */
enum role parse_pod_role(const char *json, size_t length, const char *id, char *sandbox, size_t size, enum scope *scope);

/* -- stdin of start: runtime_options.c ----------------------------------------------------------------------------- */

#define MAX_SOCKET_DIR 108

/* Whether Python would accept what is on stdin without an error. `socket_dir` receives the directory for the socket that
   containerd configures; empty if it configures none. */
bool stdin_is_supported(const unsigned char *data, size_t length, const struct command *command,
    char socket_dir[MAX_SOCKET_DIR], enum scope *scope);

/* False if there is no whole varint. */
bool decode_varint(const unsigned char **at, const unsigned char *end, uint64_t *value);
size_t encode_varint(unsigned char *to, uint64_t value);

/* -- ledger and exit record in the bundle: exit_and_ledger.c ------------------------------------------------------ */

#define MAX_LEDGER (64 << 10)
#define MAX_EXIT_RECORD 100
#define MAX_DELETE_RESPONSE 80
#define UNKNOWN_STATUS 255

struct exit_record {
    uint64_t status, seconds, nanos, pid;
};

/* Whether every resource that the ledger lists has been released. False if the ledger is unsupported, too. */
bool ledger_is_released(const char *ledger, size_t length);
/* The content of the file `exit`; false if it is unsupported. */
bool parse_exit_record(const char *text, struct exit_record *record);
size_t encode_delete_response(const struct exit_record *record, unsigned char response[MAX_DELETE_RESPONSE]);

/* -- the Connect call to the shim of a pod: connect.c ------------------------------------------------------------- */

/* A shim that needs longer is left to Python, which waits longer. */
#define CONNECT_TIMEOUT_SECONDS 1
#define MAX_CONNECT_ID 255
#define MAX_FRAME 1024
#define FRAME_HEADER 10
#define MAX_RESPONSE_BODY 4096

/* The request as one ttrpc frame; returns its length. */
size_t encode_connect_request(const char *id, unsigned char frame[MAX_FRAME]);
/* The length of the body after this frame header; 0 if it is not a response, or too long. */
size_t response_size(const unsigned char header[FRAME_HEADER]);
/* The pid of the shim; 0 if the body is an error or unsupported. */
uint64_t decode_connect_response(const unsigned char *body, size_t length);

#endif
