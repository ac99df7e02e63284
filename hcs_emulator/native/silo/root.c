/* The root file system of a silo: a given directory, or a private one.
 *
 * The private one is a tmpfs with the host's programs bound into it read-only, so that commands work and the host
 * cannot be changed; it also has the standard directories of Windows. Both get a /proc and a /dev of their own.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "silo.h"

static const char *const system_directories[] = {"usr",   "etc",   "bin",    "sbin", "lib",
                                                 "lib32", "lib64", "libx32", "opt",  NULL};
static const char *const private_directories[] = {
    "proc", "dev", "run", "mnt", "var", "root", "home", "Windows", "Windows/System32", "Windows/Temp", "Users",
    "Users/ContainerAdministrator", "Users/ContainerUser", "Users/Public", "Program Files", "ProgramData", NULL};
/* Files by which root could change the host, even without capabilities, or that need not be readable inside. */
static const char *const kept_read_only[] = {
    "proc/sys", "proc/sysrq-trigger", "proc/irq", "proc/bus", "proc/fs", NULL};
static const char *const hidden_files[] = {"etc/shadow", "etc/shadow-", "etc/gshadow", "etc/gshadow-", NULL};

static const struct {
    const char *path;
    unsigned minor;
} devices[] = {{"dev/null", 3}, {"dev/zero", 5}, {"dev/full", 7}, {"dev/random", 8}, {"dev/urandom", 9}};

static const struct {
    const char *path, *target;
} links[] = {
    {"dev/ptmx", "pts/ptmx"},         {"dev/fd", "/proc/self/fd"},           {"dev/stdin", "/proc/self/fd/0"},
    {"dev/stdout", "/proc/self/fd/1"}, {"dev/stderr", "/proc/self/fd/2"},
};

static struct failure failed(enum stage stage) { return (struct failure){stage, errno ? errno : EIO}; }

static bool bind_read_only(const char *source, const char *target)
{
    struct mount_attr attributes = {.attr_set = MOUNT_ATTR_RDONLY};

    if (mount(source, target, NULL, MS_BIND | MS_REC, NULL) < 0)
        return false;
    if (syscall(SYS_mount_setattr, AT_FDCWD, target, AT_RECURSIVE, &attributes, sizeof attributes) == 0)
        return true;
    return errno == ENOSYS && mount(NULL, target, NULL, MS_BIND | MS_REMOUNT | MS_RDONLY, NULL) == 0;
}

/* Binds one of the host's top directories into the private root: the same link, or the directory, read-only. */
static bool show_system_directory(const char *name)
{
    char source[64], target[PATH_SIZE];
    struct stat status;

    snprintf(source, sizeof source, "/%s", name);
    if (lstat(source, &status) < 0)
        return true;
    if (S_ISLNK(status.st_mode)) {
        ssize_t length = readlink(source, target, sizeof target - 1);
        if (length < 0)
            return false;
        target[length] = '\0';
        return symlink(target, name) == 0;
    }
    return mkdir(name, 0755) == 0 && bind_read_only(source, name);
}

/* Creates the private root over the future working directory. The mount namespace is private, so any directory will
 * do. */
static bool make_private_root(void)
{
    if (mount("silo", "/mnt", "tmpfs", 0, "mode=755") < 0 || chdir("/mnt") < 0)
        return false;
    for (const char *const *name = system_directories; *name; name++)
        if (!show_system_directory(*name))
            return false;
    for (const char *const *name = private_directories; *name; name++)
        if (mkdir(*name, 0755) < 0)
            return false;
    return mkdir("tmp", 01777) == 0 && mkdir("var/tmp", 01777) == 0 && chmod("tmp", 01777) == 0 &&
           chmod("var/tmp", 01777) == 0;
}

static bool enter_given_root(const char *root)
{
    return mount(root, root, NULL, MS_BIND | MS_REC, NULL) == 0 && chdir(root) == 0;
}

static bool fill_dev(void)
{
    mode_t old = umask(0);
    bool made = true;

    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++)
        made = made && mknod(devices[i].path, S_IFCHR | 0666, makedev(1, devices[i].minor)) == 0;
    made = made && mknod("dev/tty", S_IFCHR | 0666, makedev(5, 0)) == 0;
    for (size_t i = 0; i < sizeof links / sizeof *links; i++)
        made = made && symlink(links[i].target, links[i].path) == 0;
    made = made && mkdir("dev/shm", 01777) == 0 && mkdir("dev/pts", 0755) == 0;
    umask(old);
    const char *options = "newinstance,ptmxmode=0666,mode=0620";
    return made && mount("devpts", "dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, options) == 0;
}

static bool make_directory(const char *path) { return mkdir(path, 0755) == 0 || errno == EEXIST; }

static bool mount_proc(void)
{
    if (!make_directory("proc") || mount("proc", "proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
        return false;
    for (const char *const *path = kept_read_only; *path; path++)
        if (access(*path, F_OK) == 0 && !bind_read_only(*path, *path))
            return false;
    return true;
}

struct failure prepare_root(const char *root)
{
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return failed(AT_NAMESPACES);
    if (!(root ? enter_given_root(root) : make_private_root()))
        return failed(AT_ROOT);
    if (!mount_proc())
        return failed(AT_PROC);
    if (root && (!make_directory("dev") || mount("dev", "dev", "tmpfs", MS_NOSUID | MS_NOEXEC, "mode=755") < 0))
        return failed(AT_DEV);
    if (!fill_dev())
        return failed(AT_DEV);
    if (!root)
        for (const char *const *path = hidden_files; *path; path++)
            if (access(*path, F_OK) == 0 && mount("dev/null", *path, NULL, MS_BIND, NULL) < 0)
                return failed(AT_ROOT);
    /* The old root is mounted over the new one, and is then detached. */
    if (syscall(SYS_pivot_root, ".", ".") < 0 || umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
        return failed(AT_ROOT);
    return (struct failure){AT_NOTHING, 0};
}
