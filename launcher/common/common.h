/* What the launchers of Linux and of Windows (launcher/windows) share: what they read and what they say, in memory, with
   no call of the system.

   "Unusual" is the word for whatever the native commands do not know how to do exactly as Python does it: then nothing
   has been changed, and Python runs the command. */
#ifndef COMMON_H
#define COMMON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NAME "containerd-shim-runhcs-v1"
#define SANDBOX_CONTROLLER "io.containerd.sandbox.controller.v1.shim"
#define MAX_ARGUMENTS 256
#define MAX_SPEC (1 << 20)
#define SMALL_OPTIONS (64 << 10)

/* -- the command line: command_line.c ----------------------------------------------------------------------------------- */

struct command {
    const char *action, *namespace, *address, *publish, *id, *bundle;
    bool debug;
};

/* False if it is unusual. */
bool read_command(int argc, char **argv, struct command *command);
/* …/<plugin>/<namespace>/<id>: a sandbox to be made by the Sandbox service. */
bool is_sandbox_bundle(const char *bundle);

bool is_plain(const char *text, size_t length);     /* letters, digits, "-_." and nothing that means a directory */
bool is_printable(const char *text, size_t length); /* ASCII */

/* -- what is in config.json and on stdin: spec.c, runtime_options.c --------------------------------------------------------- */

enum role { UNUSUAL, ALONE, SANDBOX, MEMBER };

/* The part of the container in a pod; `sandbox` is the id of the pod's sandbox then. */
enum role read_role(const char *json, size_t length, const char *id, char *sandbox, size_t size);

/* Whether Python would accept them without complaint. */
bool options_are_usual(const unsigned char *data, size_t length, const char *id);

/* A varint; false if there is none. */
bool read_varint(const unsigned char **at, const unsigned char *end, uint64_t *value);
size_t put_varint(unsigned char *to, uint64_t value);

/* -- what a container left in its bundle: exit_and_ledger.c ---------------------------------------------------------------- */

#define MAX_LEDGER (64 << 10)
#define MAX_RECORD 100
#define MAX_RESPONSE 80
#define UNKNOWN_STATUS 255

struct record {
    uint64_t status, seconds, nanos, pid;
};

/* Whether every line of the ledger that enters something has one that strikes it out; false, too, if it is unusual. */
bool is_settled(const char *ledger, size_t length);
/* What the file `exit` says; false if it is unusual. */
bool read_record(const char *text, struct record *record);
/* A DeleteResponse. */
size_t encode_response(const struct record *record, unsigned char answer[MAX_RESPONSE]);

/* -- one Connect to the shim of a pod: connect.c ----------------------------------------------------------------------- */

/* An answer comes at once or Python has the patience. */
#define PATIENCE_SECONDS 1
#define MAX_CONNECT_ID 255
#define MAX_FRAME 1024
#define FRAME_HEADER 10
#define MAX_ANSWER 4096

/* The request, in one frame. */
size_t encode_connect(const char *id, unsigned char frame[MAX_FRAME]);
/* How much follows the header of the answer's frame; 0 if it is no answer, or a long one. */
size_t answer_size(const unsigned char header[FRAME_HEADER]);
/* The pid that is answered; 0 if something else is. */
uint64_t decode_connect(const unsigned char *body, size_t length);

#endif
