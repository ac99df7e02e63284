/* The libc calls that Python does not offer, as cffi reads them (cffi_build.py turns this into _libc_cffi.py). */
int mount(const char *source, const char *target, const char *fstype, unsigned long flags, const char *data);
int umount2(const char *target, int flags);
int prctl(int option, unsigned long arg2, unsigned long arg3, unsigned long arg4, unsigned long arg5);
int inotify_init1(int flags);
int inotify_add_watch(int fd, const char *path, unsigned int mask);
/* open_tree(2) takes the first three arguments, mount_setattr(2) all five. */
long syscall(long number, long directory, const char *path, unsigned long flags, const void *attributes, unsigned long size);
