/* Bind mounts of host directories and files in a silo.
 *
 * The service opens a detached copy of the mount and sends it; this program attaches it inside the silo's root. So
 * no symbolic link in the container can redirect the attachment outside, and binds can be added and removed while
 * the silo runs.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "silo.h"

static bool make(const char *path, bool is_directory)
{
    return make_mount_point(path, is_directory) || (errno == EROFS && make_read_only_mount_point(path, is_directory));
}

/* Creates the parent directories of `path`; existing ones are found in any case. */
static bool make_parents(char *path)
{
    char found[PATH_SIZE];

    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        bool made = find_path(path, found) || make(path, true);
        if (made && strlen(found) == strlen(path))
            memcpy(path, found, strlen(path));
        *slash = '/';
        if (!made)
            return false;
        *found = '\0';
    }
    return true;
}

static bool make_target(const char *target, bool is_directory, char found[PATH_SIZE])
{
    if (find_path(target, found))
        return true;
    return to_posix_path(target, found) && found[0] == '/' && make_parents(found) && make(found, is_directory);
}

int attach_bind(int tree, const char *target, bool read_only)
{
    struct mount_attr attributes = {.attr_set = MOUNT_ATTR_RDONLY};
    char found[PATH_SIZE];
    struct stat status;

    if (fstat(tree, &status) < 0)
        return errno;
    unsigned whole = AT_EMPTY_PATH | AT_RECURSIVE;
    if (read_only && syscall(SYS_mount_setattr, tree, "", whole, &attributes, sizeof attributes) < 0)
        return errno;
    if (!make_target(target, S_ISDIR(status.st_mode), found))
        return errno;
    if (strcmp(found, "/") == 0)
        return EBUSY;
    return syscall(SYS_move_mount, tree, "", AT_FDCWD, found, MOVE_MOUNT_F_EMPTY_PATH) < 0 ? errno : 0;
}

int detach_bind(const char *target)
{
    char found[PATH_SIZE];

    if (!find_path(target, found))
        return errno;
    return umount2(found, MNT_DETACH | UMOUNT_NOFOLLOW) < 0 ? errno : 0;
}
