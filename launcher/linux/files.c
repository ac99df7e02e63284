/* Reads and writes small files. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launcher.h"

ssize_t read_file(const char *path, char *buffer, size_t size) {
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC); /* a FIFO of that name must not block */
    if (fd < 0)
        return -1;
    struct stat status;
    ssize_t length = -1, got = 1;
    if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode))
        for (length = 0; got > 0 && (size_t)length < size; length += got)
            if ((got = read(fd, buffer + length, size - (size_t)length)) < 0)
                break;
    close(fd);
    if (got != 0 || length < 0 || (size_t)length >= size) {
        errno = EINVAL;
        return -1;
    }
    buffer[length] = '\0';
    return length;
}

bool write_all(int fd, const char *data, size_t length) {
    while (length > 0) {
        ssize_t wrote = write(fd, data, length);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0)
            return false;
        data += wrote;
        length -= (size_t)wrote;
    }
    return true;
}

bool write_stdout(const void *data, size_t length) {
    struct sigaction before, ignored = {.sa_handler = SIG_IGN};
    sigaction(SIGPIPE, &ignored, &before);
    bool written = write_all(STDOUT_FILENO, data, length);
    sigaction(SIGPIPE, &before, NULL);
    return written;
}

bool write_file(const char *name, const char *content) {
    char temporary[64];
    snprintf(temporary, sizeof temporary, ".%s", name);
    int fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return false;
    bool written = write_all(fd, content, strlen(content));
    written = close(fd) == 0 && written && rename(temporary, name) == 0;
    if (!written)
        unlink(temporary);
    return written;
}
