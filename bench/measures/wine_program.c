/* The processes of benchmarks under Wine whose own cost must be small, since it is part of what is measured.

     wait                waits until it is terminated: the process of a container
     write EVENT SIZE    waits for the event, then writes so many bytes to stdout
     read EVENT PIPE…    serves the pipes; prints `ready`, reads a line, sets the event, reads every pipe until its client
                         has closed it, prints the bytes and the seconds since the event
     calls CALLERS COUNT FILE
                         so many callers, each with so many calls to all servers in turn, over one connection to each
                         server. A line of the file has its pipe and the frame of a ttrpc request in hexadecimal. Prints
                         the calls per second of all callers
     serve PIPE…         answers every frame of a client of each pipe at once: the least that a call costs under Wine;
                         prints `ready`, and exits when all clients have left
     spawn COUNT         starts itself so many times, one after the other; prints the milliseconds of one
     threads COUNT       has so many idle threads; prints `ready`, and exits at the end of stdin

   Every wait ends after two minutes, but for those of processes that run until they are terminated. */
#define WIN32_LEAN_AND_MEAN
#include <windows.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TIMEOUT 120000
#define MOST MAXIMUM_WAIT_OBJECTS
#define SERVERS 1024
#define HEADER 10
#define RESPONSE 2
#define BUFFER (64 << 10)

static HANDLE begin;

static int fail(const char *what) {
    fprintf(stderr, "%s (error %lu)\n", what, GetLastError());
    return 1;
}

static double now(void) {
    LARGE_INTEGER count, frequency;
    QueryPerformanceCounter(&count);
    QueryPerformanceFrequency(&frequency);
    return (double)count.QuadPart / (double)frequency.QuadPart;
}

/* The threads end, each with exit code 0. */
static BOOL wait_threads(const HANDLE *threads, int count) {
    if (WaitForMultipleObjects((DWORD)count, threads, TRUE, TIMEOUT) == WAIT_TIMEOUT)
        return FALSE;
    for (int number = 0; number < count; number++) {
        DWORD code = 1;
        if (!GetExitCodeThread(threads[number], &code) || code != 0)
            return FALSE;
    }
    return TRUE;
}

/* write */

static int write_output(const char *event, unsigned long long size) {
    static char data[BUFFER];
    HANDLE output = GetStdHandle(STD_OUTPUT_HANDLE);
    HANDLE start = OpenEventA(SYNCHRONIZE, FALSE, event);
    if (start == NULL || WaitForSingleObject(start, TIMEOUT) != WAIT_OBJECT_0)
        return fail("no event to begin");
    memset(data, 'x', sizeof data);
    while (size > 0) {
        DWORD written;
        if (!WriteFile(output, data, (DWORD)(size < sizeof data ? size : sizeof data), &written, NULL))
            return fail("cannot write");
        size -= written;
    }
    return 0;
}

/* read */

static struct stream {
    HANDLE pipe;
    unsigned long long size;
} streams[MOST];

static DWORD WINAPI read_stream(void *argument) {
    struct stream *stream = argument;
    char *data = malloc(BUFFER);
    DWORD size;
    if (data == NULL || (!ConnectNamedPipe(stream->pipe, NULL) && GetLastError() != ERROR_PIPE_CONNECTED))
        return 1;
    while (ReadFile(stream->pipe, data, BUFFER, &size, NULL))
        stream->size += size;
    return GetLastError() != ERROR_BROKEN_PIPE;
}

static int read_streams(const char *event, int count, char **names) {
    HANDLE threads[MOST], start = CreateEventA(NULL, TRUE, FALSE, event);
    char line[16];
    if (count > MOST || start == NULL)
        return fail("too many pipes, or no event");
    for (int number = 0; number < count; number++) {
        streams[number].pipe = CreateNamedPipeA(names[number], PIPE_ACCESS_DUPLEX, 0, 1, BUFFER, BUFFER, 0, NULL);
        if (streams[number].pipe == INVALID_HANDLE_VALUE)
            return fail("cannot create a pipe");
        threads[number] = CreateThread(NULL, 0, read_stream, &streams[number], 0, NULL);
    }
    printf("ready\n");
    fflush(stdout);
    if (fgets(line, sizeof line, stdin) == NULL)
        return fail("no line");
    double started = now();
    SetEvent(start);
    if (!wait_threads(threads, count))
        return fail("a stream did not end");
    double seconds = now() - started;
    unsigned long long total = 0;
    for (int number = 0; number < count; number++)
        total += streams[number].size;
    printf("%llu %.6f\n", total, seconds);
    return 0;
}

/* calls */

static struct server {
    char name[256];
    unsigned char frame[1024];
    DWORD size;
    uint32_t stream;
    HANDLE pipe;
    CRITICAL_SECTION lock;
} servers[SERVERS];

static int server_count, caller_count;
static unsigned long calls_each;

static int hexadecimal(const char *text, unsigned char *out, int capacity) {
    int size = 0;
    unsigned value;
    for (; size < capacity && sscanf(text, "%2x", &value) == 1; text += 2)
        out[size++] = (unsigned char)value;
    return size;
}

static HANDLE dial(const char *pipe) {
    for (double end = now() + TIMEOUT / 1000.0;;) {
        HANDLE found = CreateFileA(pipe, GENERIC_READ | GENERIC_WRITE, 0, NULL, OPEN_EXISTING, 0, NULL);
        if (found != INVALID_HANDLE_VALUE || GetLastError() != ERROR_PIPE_BUSY || now() > end)
            return found;
        WaitNamedPipeA(pipe, 100);
    }
}

static BOOL receive(HANDLE pipe, unsigned char *data, DWORD size) {
    DWORD done;
    for (; size > 0; data += done, size -= done)
        if (!ReadFile(pipe, data, size, &done, NULL) || done == 0)
            return FALSE;
    return TRUE;
}

/* One request and its response, which is no error: field 1 of it, the status, is absent. */
static BOOL call(struct server *server) {
    unsigned char data[BUFFER];
    DWORD written, size = 0;
    EnterCriticalSection(&server->lock);
    for (int at = 0; at < 4; at++)
        server->frame[4 + at] = (unsigned char)(server->stream >> (24 - 8 * at));
    server->stream += 2;
    BOOL succeeded = WriteFile(server->pipe, server->frame, server->size, &written, NULL) &&
                     receive(server->pipe, data, HEADER) && data[8] == RESPONSE;
    if (succeeded)
        size = (DWORD)data[0] << 24 | (DWORD)data[1] << 16 | (DWORD)data[2] << 8 | data[3];
    succeeded = succeeded && size > 0 && size <= sizeof data && receive(server->pipe, data, size) && data[0] != 0x0a;
    LeaveCriticalSection(&server->lock);
    return succeeded;
}

/* The callers begin at different servers. */
static DWORD WINAPI run_caller(void *argument) {
    int at = (int)(intptr_t)argument * server_count / caller_count;
    if (WaitForSingleObject(begin, TIMEOUT) != WAIT_OBJECT_0)
        return 1;
    for (unsigned long number = 0; number < calls_each; number++)
        if (!call(&servers[(at + number) % (unsigned long)server_count]))
            return 1;
    return 0;
}

static int call_all(const char *name) {
    HANDLE threads[MOST];
    char line[4096], frame[4096];
    FILE *file = fopen(name, "r");
    begin = CreateEventA(NULL, TRUE, FALSE, NULL);
    if (file == NULL || begin == NULL || caller_count < 1 || caller_count > MOST)
        return fail("cannot read the file of servers, or too many callers");
    while (server_count < SERVERS && fgets(line, sizeof line, file) != NULL) {
        struct server *server = &servers[server_count];
        if (sscanf(line, "%255s %4095s", server->name, frame) != 2)
            return fail("a line of the file is no server");
        server->size = (DWORD)hexadecimal(frame, server->frame, sizeof server->frame);
        server->stream = 1;
        server->pipe = dial(server->name);
        InitializeCriticalSection(&server->lock);
        if (server->pipe == INVALID_HANDLE_VALUE || !call(server))
            return fail("a first call failed");
        server_count++;
    }
    fclose(file);
    if (server_count == 0)
        return fail("no servers");
    for (int number = 0; number < caller_count; number++)
        threads[number] = CreateThread(NULL, 0, run_caller, (void *)(intptr_t)number, 0, NULL);
    double started = now();
    SetEvent(begin);
    if (!wait_threads(threads, caller_count))
        return fail("a call failed");
    printf("%.3f\n", (double)caller_count * (double)calls_each / (now() - started));
    return 0;
}

/* serve */

static DWORD WINAPI answer_calls(void *argument) {
    static const unsigned char response[HEADER + 2] = {0, 0, 0, 2, 0, 0, 0, 0, RESPONSE, 0, 0x12, 0};
    unsigned char data[BUFFER], reply[sizeof response];
    HANDLE pipe = ((struct stream *)argument)->pipe;
    DWORD written;
    if (!ConnectNamedPipe(pipe, NULL) && GetLastError() != ERROR_PIPE_CONNECTED)
        return 1;
    while (receive(pipe, data, HEADER)) {
        DWORD size = (DWORD)data[0] << 24 | (DWORD)data[1] << 16 | (DWORD)data[2] << 8 | data[3];
        memcpy(reply, response, sizeof reply);
        memcpy(reply + 4, data + 4, 4); /* the stream */
        if (size > sizeof data || !receive(pipe, data, size) || !WriteFile(pipe, reply, sizeof reply, &written, NULL))
            return 1;
    }
    return 0;
}

static int serve(int count, char **names) {
    HANDLE threads[MOST];
    if (count > MOST)
        return fail("too many pipes");
    for (int number = 0; number < count; number++) {
        streams[number].pipe = CreateNamedPipeA(names[number], PIPE_ACCESS_DUPLEX, 0, 1, BUFFER, BUFFER, 0, NULL);
        if (streams[number].pipe == INVALID_HANDLE_VALUE)
            return fail("cannot create a pipe");
        threads[number] = CreateThread(NULL, 0, answer_calls, &streams[number], 0, NULL);
    }
    printf("ready\n");
    fflush(stdout);
    return wait_threads(threads, count) ? 0 : fail("a client failed");
}

/* spawn */

static int spawn(int count, const char *program) {
    double started = now();
    for (int number = 0; number < count; number++) {
        char command[MAX_PATH + 16];
        STARTUPINFOA startup = {.cb = sizeof startup};
        PROCESS_INFORMATION made;
        snprintf(command, sizeof command, "\"%s\" nothing", program);
        if (!CreateProcessA(NULL, command, NULL, NULL, FALSE, 0, NULL, NULL, &startup, &made) ||
            WaitForSingleObject(made.hProcess, TIMEOUT) != WAIT_OBJECT_0)
            return fail("cannot start a process");
        CloseHandle(made.hThread);
        CloseHandle(made.hProcess);
    }
    printf("%.3f\n", (now() - started) * 1e3 / count);
    return 0;
}

/* threads */

static DWORD WINAPI idle(void *argument) {
    (void)argument;
    Sleep(INFINITE);
    return 0;
}

static int run_threads(int count) {
    for (int number = 0; number < count; number++)
        if (CreateThread(NULL, 0, idle, NULL, 0, NULL) == NULL)
            return fail("cannot create a thread");
    printf("ready\n");
    fflush(stdout);
    while (getchar() != EOF)
        ;
    return 0;
}

int main(int count, char **words) {
    if (count == 2 && strcmp(words[1], "wait") == 0) {
        Sleep(INFINITE);
        return 0;
    }
    if (count == 4 && strcmp(words[1], "write") == 0)
        return write_output(words[2], strtoull(words[3], NULL, 10));
    if (count > 3 && strcmp(words[1], "read") == 0)
        return read_streams(words[2], count - 3, words + 3);
    if (count == 5 && strcmp(words[1], "calls") == 0) {
        caller_count = atoi(words[2]);
        calls_each = strtoul(words[3], NULL, 10);
        return call_all(words[4]);
    }
    if (count > 2 && strcmp(words[1], "serve") == 0)
        return serve(count - 2, words + 2);
    if (count == 2 && strcmp(words[1], "nothing") == 0)
        return 0;
    if (count == 3 && strcmp(words[1], "spawn") == 0)
        return spawn(atoi(words[2]), words[0]);
    if (count == 3 && strcmp(words[1], "threads") == 0)
        return run_threads(atoi(words[2]));
    return fail("usage: wait | write EVENT SIZE | read EVENT PIPE... | calls CALLERS COUNT FILE | serve PIPE... | spawn COUNT | "
                "threads COUNT");
}
