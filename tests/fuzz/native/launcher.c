/* libFuzzer: the launcher's parsers (launcher/common) with any input. The first byte chooses the parser. */
#include <stdlib.h>
#include <string.h>

#include "common.h"

#define PARSERS 6

/* A copy that ends where the input ends, with a zero after it, so that a read beyond it is detected. */
static char *text_of(const uint8_t *data, size_t size) {
    char *text = malloc(size + 1);
    memcpy(text, data, size);
    text[size] = '\0';
    return text;
}

static void command_line(char *text, size_t size) {
    char *argv[MAX_ARGUMENTS + 2];
    int argc = 0;
    for (char *at = text; at <= text + size && argc < MAX_ARGUMENTS + 1; at += strlen(at) + 1)
        argv[argc++] = at;
    argv[argc] = NULL;
    struct command command;
    if (parse_command_line(argc, argv, &command) && command.bundle != NULL)
        is_sandbox_bundle(command.bundle);
}

static void standard_input(const uint8_t *data, size_t size) {
    char socket_dir[MAX_SOCKET_DIR];
    enum scope scope;
    const struct command command = {.action = "start", .namespace = "n", .address = "/a", .publish = "p", .id = "i"};
    if (stdin_is_supported(data, size, &command, socket_dir, &scope) && strlen(socket_dir) >= MAX_SOCKET_DIR)
        abort();
}

static void exit_record(const char *text) {
    struct exit_record record;
    unsigned char response[MAX_DELETE_RESPONSE];
    if (parse_exit_record(text, &record) && encode_delete_response(&record, response) > MAX_DELETE_RESPONSE)
        abort();
}

static void pod_role(const char *text, size_t size) {
    char sandbox[64];
    enum scope scope;
    if (parse_pod_role(text, size, "c1", sandbox, sizeof sandbox, &scope) >= SANDBOX && strlen(sandbox) >= sizeof sandbox)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0)
        return 0;
    const uint8_t *input = data + 1;
    size_t length = size - 1;
    char *text = text_of(input, length);
    switch (data[0] % PARSERS) {
    case 0: command_line(text, length); break;
    case 1: pod_role(text, length); break;
    case 2: standard_input((unsigned char *)text, length); break;
    case 3: ledger_is_released(text, length); break;
    case 4: exit_record(text); break;
    default:
        if (length >= FRAME_HEADER)
            response_size((unsigned char *)text);
        decode_connect_response((unsigned char *)text, length);
    }
    free(text);
    return 0;
}
