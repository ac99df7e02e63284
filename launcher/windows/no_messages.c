/* no-msg.dll: what cffi's library asks user32.dll for, without user32.dll.

   It would show a window when a program that embeds it fails to start, which ours does not do, and which nobody would see in a service. For
   that it loads Windows' whole graphics system into every shim. So its import is renamed to this library. */
int __stdcall MessageBoxA(void *owner, const char *text, const char *title, unsigned kind) {
    (void)owner, (void)text, (void)title, (void)kind;
    return 0;
}
