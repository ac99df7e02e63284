/* The launcher's readers, one question after another: see test_launcher.py. A question is a letter and two texts, each
   with four bytes of length before it; the answer is a line. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launcher.h"

static size_t length;

/* In memory of exactly its size, so that a step beyond its end is seen. */
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

static void say_command(char *words) {
    char *argv[MAX_ARGUMENTS] = {"program"};
    int argc = 1;
    for (char *word = words; word < words + length; word += strlen(word) + 1)
        argv[argc++] = word;
    struct command command;
    if (!read_command(argc, argv, &command))
        puts("unusual");
    else
        printf("%s %s %s %s %s %s\n", command.action, command.namespace, command.address, command.publish, command.id,
            command.bundle == NULL ? "" : command.bundle);
}

int main(void) {
    static const char *const roles[] = {"unusual", "alone", "sandbox", "member"};
    for (int kind; (kind = getchar()) != EOF;) {
        char *id = receive(), *data = receive(), *copy = exact(data), sandbox[64] = "";
        struct sockaddr_un address;
        if (kind == 'r') {
            enum role role = read_role(copy, length, id, sandbox, sizeof sandbox);
            printf("%s %s\n", roles[role], role == UNUSUAL ? "" : sandbox);
        } else if (kind == 'o')
            puts(options_are_usual((unsigned char *)copy, length, id) ? "usual" : "unusual");
        else if (kind == 'c')
            say_command(data);
        else {
            struct command command = {.namespace = "ns", .address = data};
            puts(strlen(data) == length && socket_path(&command, id, &address) ? address.sun_path : "unusual");
        }
        free(id);
        free(data);
        free(copy);
        fflush(stdout);
    }
    return 0;
}
