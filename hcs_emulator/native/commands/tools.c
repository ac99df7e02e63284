/* Small programs: ping, timeout, hostname, whoami, ver, tasklist. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include "commands.h"

void pass_seconds(double seconds)
{
    struct timespec left = {.tv_sec = (time_t)seconds, .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};

    fflush(stdout);
    while (nanosleep(&left, &left) < 0 && errno == EINTR)
        ;
}

/* Sends nothing: only this host answers. It is used to pass time and to be stopped. */
int run_ping(int count, char **arguments)
{
    const char *host = NULL, *address = NULL;
    long wanted = 4, sent = 0, answered = 0;
    char own[65] = "";
    struct in_addr numeric;

    for (int i = 1; i < count; i++) {
        if (is_option(arguments[i], "t"))
            wanted = -1;
        else if (is_option(arguments[i], "n") && i + 1 < count)
            wanted = atol(arguments[++i]);
        else if (is_option(arguments[i], "w") || is_option(arguments[i], "l") || is_option(arguments[i], "i"))
            i++;
        else if (*arguments[i] != '-' && *arguments[i] != '/')
            host = arguments[i];
    }
    if (host == NULL)
        return complain("\r\nUsage: ping [-t] [-n count] target_name (a stand-in: only this machine answers)");
    gethostname(own, sizeof own - 1);
    if (strcasecmp(host, "localhost") == 0 || strcasecmp(host, own) == 0)
        address = "127.0.0.1";
    else if (inet_pton(AF_INET, host, &numeric) == 1 || strcmp(host, "::1") == 0)
        address = host;
    if (address == NULL) {
        printf("Ping request could not find host %s. Please check the name and try again.\r\n", host);
        return 1;
    }
    bool answers = strncmp(address, "127.", 4) == 0 || strcmp(address, "::1") == 0;
    printf("\r\nPinging %s with 32 bytes of data:\r\n", host);
    for (; wanted < 0 || sent < wanted; sent++) {
        if (sent)
            pass_seconds(1);
        if (answers)
            printf("Reply from %s: bytes=32 time<1ms TTL=128\r\n", address);
        else
            printf("Request timed out.\r\n");
        answered += answers;
        fflush(stdout);
    }
    long lost = sent - answered;
    printf("\r\nPing statistics for %s:\r\n", address);
    printf("    Packets: Sent = %ld, Received = %ld, Lost = %ld (%ld%% loss),\r\n", sent, answered, lost,
           sent ? lost * 100 / sent : 0);
    return lost == 0 ? 0 : 1;
}

/* Waits; a key press ends it only with a console. (Windows' own refuses to run without one.) */
int run_timeout(int count, char **arguments)
{
    long seconds = -2;
    bool no_break = false;

    for (int i = 1; i < count; i++) {
        if (is_option(arguments[i], "nobreak"))
            no_break = true;
        else if (is_option(arguments[i], "t") && i + 1 < count)
            seconds = atol(arguments[++i]);
        else if (isdigit((unsigned char)*arguments[i]))
            seconds = atol(arguments[i]);
    }
    if (seconds < -1 || seconds > 99999)
        return complain("ERROR: Invalid value for timeout specified. Valid range is -1 to 99999.");
    bool keyboard = isatty(0) && !no_break;
    printf("\r\nWaiting for %ld seconds, press %s ...", seconds, no_break ? "CTRL+C to quit" : "a key to continue");
    fflush(stdout);
    for (long passed = 0; seconds < 0 || passed < seconds; passed++) {
        struct pollfd key = {.fd = 0, .events = POLLIN};
        if (!keyboard)
            pass_seconds(1);
        else if (poll(&key, 1, 1000) > 0)
            break;
    }
    printf("\r\n");
    return 0;
}

int run_hostname(int count, char **arguments)
{
    char name[65] = "";

    (void)count;
    (void)arguments;
    gethostname(name, sizeof name - 1);
    printf("%s\r\n", name);
    return 0;
}

int run_whoami(int count, char **arguments)
{
    const char *name = get_variable("USERNAME");
    char *lower = keep_text(name ? name : "containeradministrator", strlen(name ? name : "containeradministrator"));

    (void)count;
    (void)arguments;
    for (char *c = lower; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    printf("%s\\%s\r\n", strcmp(lower, "system") == 0 ? "nt authority" : "user manager", lower);
    return 0;
}

int run_ver(int count, char **arguments)
{
    (void)count;
    (void)arguments;
    printf("\r\nMicrosoft Windows [Version 10.0.20348.0]\r\n");
    return 0;
}

static void show_task(int pid)
{
    char path[64], line[256], name[64] = "?";
    long memory = 0;

    snprintf(path, sizeof path, "/proc/%d/status", pid);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return;
    while (fgets(line, sizeof line, file)) {
        sscanf(line, "Name: %63[^\n]", name);
        sscanf(line, "VmRSS: %ld", &memory);
    }
    fclose(file);
    printf("%-25.25s %8d Console                    1 %10ld K\r\n", name, pid, memory);
}

int run_tasklist(int count, char **arguments)
{
    DIR *processes = opendir("/proc");
    struct dirent *entry;

    (void)count;
    (void)arguments;
    if (processes == NULL)
        return complain("ERROR: The list of processes cannot be read.");
    printf("\r\nImage Name                     PID Session Name        Session#    Mem Usage\r\n");
    printf("========================= ======== ================ =========== ============\r\n");
    while ((entry = readdir(processes)) != NULL)
        if (isdigit((unsigned char)*entry->d_name))
            show_task(atoi(entry->d_name));
    closedir(processes);
    return 0;
}
