/* The user of a process in the silo: one of the root's own passwd file, with no more rights than a container needs. */
#define _GNU_SOURCE
#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "silo.h"

/* Capabilities that root keeps: for the container's own files, users and processes, none that affects the host. */
static const int kept_capabilities[] = {
    CAP_CHOWN,  CAP_DAC_OVERRIDE, CAP_FOWNER,  CAP_FSETID,     CAP_KILL,      CAP_SETGID,           CAP_SETUID,
    CAP_SETPCAP, CAP_SETFCAP,      CAP_NET_RAW, CAP_SYS_CHROOT, CAP_AUDIT_WRITE, CAP_NET_BIND_SERVICE,
};

void drop_capabilities(void)
{
    /* Removed from the bounding set, they are lost with the exec that follows. */
    for (int capability = 0; capability <= CAP_LAST_CAP; capability++) {
        bool kept = false;
        for (size_t i = 0; i < sizeof kept_capabilities / sizeof *kept_capabilities; i++)
            kept = kept || kept_capabilities[i] == capability;
        if (!kept)
            prctl(PR_CAPBSET_DROP, capability, 0, 0, 0);
    }
}

/* Not getpwnam: a static program must not load name service modules, and never those of the container. */
static bool find_user(const char *name, uid_t *user, gid_t *group)
{
    char *end = NULL;
    unsigned long number = strtoul(name, &end, 10);
    bool numeric = end != name && (*end == '\0' || *end == ':'), found = false;
    FILE *file = fopen("/etc/passwd", "re");
    struct passwd *entry;

    while (file != NULL && !found && (entry = fgetpwent(file)) != NULL)
        if (strcasecmp(entry->pw_name, name) == 0 || (numeric && entry->pw_uid == number)) {
            *user = entry->pw_uid;
            *group = entry->pw_gid;
            found = true;
        }
    if (file != NULL)
        fclose(file);
    if (numeric && !found) {
        *user = (uid_t)number;
        *group = (gid_t)number;
        found = true;
    }
    if (numeric && *end == ':')
        *group = (gid_t)strtoul(end + 1, NULL, 10);
    return found;
}

int become_user(const char *name)
{
    uid_t user;
    gid_t group;

    if (*name == '\0')
        return 0;
    if (!find_user(name, &user, &group))
        return ENOENT;
    if (setgroups(1, &group) < 0 || setgid(group) < 0 || setuid(user) < 0)
        return errno;
    return 0;
}
