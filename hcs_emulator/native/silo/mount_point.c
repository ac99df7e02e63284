/* Mount points below read-only binds.
 *
 * If the path of a bind does not exist, Windows' bind filter synthesizes it in memory (an "anchorless" link, see
 * https://learn.microsoft.com/windows/win32/bindlink/bindlink-overview), so that directories can be mapped below one
 * that is read-only. Linux needs a directory to mount at. An overlay provides it, with a tmpfs for what is added, and
 * nothing is written to the directory of the host. An overlay does not show mounts below its lower directory: what was
 * mapped to an existing directory of the same read-only bind before is hidden.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "silo.h"

/* Marks the roots of these overlays. A bind of a directory that happens to be on an overlay of the host must not be
 * made writable, so the value is known to this process only. */
static const char MARK[] = "trusted.silo.mark";
static char mark[16];
static bool is_drawn;

static bool is_mount_root(const char *path)
{
    struct statx status;

    return statx(AT_FDCWD, path, AT_NO_AUTOMOUNT, 0, &status) == 0 &&
           (status.stx_attributes & STATX_ATTR_MOUNT_ROOT);
}

/* Shortens `path` to the root of the mount it is on. */
static void to_mount_root(char *path)
{
    while (path[1] != '\0' && !is_mount_root(path)) {
        char *slash = strrchr(path, '/');
        slash[slash == path] = '\0';
    }
}

static bool set_read_only(const char *root, bool read_only)
{
    struct mount_attr attributes = {0};

    *(read_only ? &attributes.attr_set : &attributes.attr_clr) = MOUNT_ATTR_RDONLY;
    return syscall(SYS_mount_setattr, AT_FDCWD, root, 0, &attributes, sizeof attributes) == 0;
}

static int configure(int overlay, const char *name, const char *value)
{
    return syscall(SYS_fsconfig, overlay, FSCONFIG_SET_STRING, name, value, 0);
}

static bool is_marked(const char *root)
{
    char value[sizeof mark];

    return is_drawn && getxattr(root, MARK, value, sizeof value) == sizeof value &&
           memcmp(value, mark, sizeof mark) == 0;
}

static bool set_mark(const char *directory)
{
    is_drawn = is_drawn || getrandom(mark, sizeof mark, 0) == sizeof mark;
    return is_drawn && setxattr(directory, MARK, mark, sizeof mark, 0) == 0;
}

/* A detached overlay over "old" of the current directory, for which "new" and "work" are created. Returns its
 * descriptor, or -1. Relative paths, since a lower directory's name must have no colon. */
static int make_overlay(void)
{
    if (mkdir("new", 0755) < 0 || mkdir("work", 0755) < 0 || !set_mark("new"))
        return -1;
    int overlay = syscall(SYS_fsopen, "overlay", FSOPEN_CLOEXEC);
    if (overlay < 0)
        return -1;
    int mount = -1;
    if (configure(overlay, "lowerdir", "old") == 0 && configure(overlay, "upperdir", "new") == 0 &&
        configure(overlay, "workdir", "work") == 0 &&
        syscall(SYS_fsconfig, overlay, FSCONFIG_CMD_CREATE, NULL, NULL, 0) == 0)
        mount = syscall(SYS_fsmount, overlay, FSMOUNT_CLOEXEC, 0);
    int error = errno;
    close(overlay);
    errno = error;
    return mount;
}

static bool move_to(int tree, const char *path)
{
    return syscall(SYS_move_mount, tree, "", AT_FDCWD, path, MOVE_MOUNT_F_EMPTY_PATH) == 0;
}

/* The overlay for `directory`, built in a tmpfs that is mounted there meanwhile. */
static int overlay_of(const char *directory)
{
    int overlay = -1;
    int old = syscall(SYS_open_tree, AT_FDCWD, directory, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    int before = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);

    if (old >= 0 && before >= 0 && mount("tmpfs", directory, "tmpfs", MS_NOSUID | MS_NODEV, "mode=755") == 0) {
        if (chdir(directory) == 0 && mkdir("old", 0755) == 0 && move_to(old, "old"))
            overlay = make_overlay();
        int error = errno;
        if (fchdir(before) < 0 || umount2(directory, MNT_DETACH) < 0)
            error = errno;
        errno = error;
    }
    int error = errno;
    close(old);
    close(before);
    errno = error;
    return overlay;
}

/* Replaces the read-only mount at `root` by an overlay that is writable. */
static bool cover(const char *root)
{
    int overlay = overlay_of(root);

    if (overlay < 0)
        return false;
    bool moved = umount2(root, MNT_DETACH) == 0 && move_to(overlay, root);
    int error = errno;
    close(overlay);
    errno = error;
    return moved;
}

bool make_mount_point(const char *path, bool is_directory)
{
    if (is_directory)
        return mkdir(path, 0755) == 0;
    int file = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
    return file >= 0 && close(file) == 0;
}

bool make_read_only_mount_point(const char *path, bool is_directory)
{
    char root[PATH_SIZE];

    strcpy(root, path);
    char *slash = strrchr(root, '/');
    slash[slash == root] = '\0';
    to_mount_root(root);
    if (is_marked(root) ? !set_read_only(root, false) : !cover(root))
        return false;
    bool made = make_mount_point(path, is_directory);
    int error = errno;
    if (!set_read_only(root, true))
        return false;
    errno = error;
    return made;
}
