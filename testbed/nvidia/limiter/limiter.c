/* A limiter as small as one can be, for rehearsals: preloaded, it stands between a program and what `dlsym` finds of
 * CUDA, and counts plain allocations against CUDA_DEVICE_MEMORY_LIMIT_0. Other ways to allocate pass. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

typedef void *lookup(void *, const char *);
static int (*allocate)(unsigned long long *, size_t);
static size_t held;

static size_t limit(void) {
  const char *given = getenv("CUDA_DEVICE_MEMORY_LIMIT_0");
  return given ? strtoull(given, NULL, 10) * 1024 * 1024 : 0;
}

static int limited_allocate(unsigned long long *address, size_t size) {
  if (limit() && held + size > limit()) return 2; /* CUDA_ERROR_OUT_OF_MEMORY */
  int result = allocate(address, size);
  held += result ? 0 : size;
  return result;
}

static int limited_memory(size_t *free, size_t *total) {
  *total = limit();
  *free = *total - held;
  return 0;
}

void *dlsym(void *handle, const char *name) {
  static lookup *real;
  if (!real) real = (lookup *)dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
  void *found = real(handle, name);
  if (found && !strcmp(name, "cuMemAlloc_v2")) {
    allocate = (int (*)(unsigned long long *, size_t))found;
    return (void *)limited_allocate;
  }
  return found && limit() && !strcmp(name, "cuMemGetInfo_v2") ? (void *)limited_memory : found;
}
