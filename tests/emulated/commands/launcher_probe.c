/* Runs the launcher's parsers for test_launcher_parsers.py. A request is a letter and two texts, each after its length in four
   bytes; the response is a line. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launcher.h"

static size_t length;

/* Allocated with its exact size, so that the address sanitizer detects a read beyond its end. */
static char *receive(void) {
    unsigned char size[4];
    if (fread(size, 1, 4, stdin) != 4)
        exit(0);
    length = (size_t)size[0] << 24 | (size_t)size[1] << 16 | (size_t)size[2] << 8 | size[3];
    char *text = malloc(length + 1);
    if (text == NULL || fread(text, 1, length, stdin) != length)
        exit(1);
    text[length] = '\0';
    return realloc(text, length + 1);
}

static char *exact(const char *text) {
    char *copy = malloc(length == 0 ? 1 : length);
    memcpy(copy, text, length);
    return copy;
}

static void print_command(char *words) {
    char *argv[MAX_ARGUMENTS] = {"program"};
    int argc = 1;
    for (char *word = words; word < words + length; word += strlen(word) + 1)
        argv[argc++] = word;
    struct command command;
    if (!parse_command_line(argc, argv, &command))
        puts("unsupported");
    else
        printf("%s %s %s %s %s %s\n", command.action, command.namespace, command.address, command.publish, command.id,
            command.bundle == NULL ? "" : command.bundle);
}

static void print_hex(const unsigned char *data, size_t size) {
    for (size_t at = 0; at < size; at++)
        printf("%02x", data[at]);
    puts("");
}

static void print_delete_response(const char *text) {
    unsigned char response[MAX_DELETE_RESPONSE];
    struct exit_record record;
    if (strlen(text) != length || !parse_exit_record(text, &record))
        puts("unsupported");
    else
        print_hex(response, encode_delete_response(&record, response));
}

static void print_connect_request(const char *id) {
    unsigned char frame[MAX_FRAME];
    print_hex(frame, encode_connect_request(id, frame));
}

static void print_connect_response(const unsigned char *frame) {
    size_t size = length < FRAME_HEADER ? 0 : response_size(frame);
    uint64_t pid = size == 0 || size != length - FRAME_HEADER ? 0 : decode_connect_response(frame + FRAME_HEADER, size);
    printf("%llu\n", (unsigned long long)pid);
}

static const char *const scopes[] = {"", " pod", " namespace", " node"};

static void print_stdin(const char *id, const unsigned char *data) {
    struct command command = {.namespace = "ns", .id = id};
    char socket_dir[MAX_SOCKET_DIR];
    enum scope scope;
    bool is_supported = stdin_is_supported(data, length, &command, socket_dir, &scope);
    printf("%s%s%s\n", is_supported ? "supported" : "unsupported", is_supported ? socket_dir : "",
        is_supported ? scopes[scope] : "");
}

int main(void) {
    static const char *const roles[] = {"unsupported", "standalone", "sandbox", "member"};
    for (int kind; (kind = getchar()) != EOF;) {
        char *id = receive(), *data = receive(), *copy = exact(data), sandbox[64] = "";
        struct sockaddr_un address;
        if (kind == 'r') {
            enum scope scope;
            enum role role = parse_pod_role(copy, length, id, sandbox, sizeof sandbox, &scope);
            printf("%s %s%s\n", roles[role], role == UNSUPPORTED ? "" : sandbox, role == UNSUPPORTED ? "" : scopes[scope]);
        } else if (kind == 'o')
            print_stdin(id, (unsigned char *)copy);
        else if (kind == 'c')
            print_command(data);
        else if (kind == 'l')
            puts(ledger_is_released(data, length) ? "released" : "unsupported");
        else if (kind == 'e')
            print_delete_response(data);
        else if (kind == 'q')
            print_connect_request(id);
        else if (kind == 'a')
            print_connect_response((unsigned char *)copy);
        else {
            struct command command = {.namespace = "ns", .address = data};
            puts(strlen(data) == length && socket_path(&command, id, "", &address) ? address.sun_path : "unsupported");
        }
        free(id);
        free(data);
        free(copy);
        fflush(stdout);
    }
    return 0;
}
