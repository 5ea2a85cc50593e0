/* A library with CUDA's name that computes nothing and counts memory over all processes, of the cards that the stand-in
 * for NVML knows. A context takes memory too, and a kernel that writes to an address which was never given faults. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../nvml/cards.h"

typedef int CUresult;
enum { OK = 0, INVALID = 1, OUT_OF_MEMORY = 2, NO_DEVICE = 100, ILLEGAL_ADDRESS = 700 };
#define CONTEXT (256 * MIB)
#define FIRST_ADDRESS 0x700000000000ULL
#define XID_OF_FAULT 31

typedef struct {
  size_t width, height;
  unsigned format, channels;
} array;

static char uuid[TEXT];
static unsigned long long whole, given;
static unsigned retained;
static bool faulted;

CUresult cuGetErrorName(CUresult error, const char **name) {
  *name = error == OUT_OF_MEMORY     ? "CUDA_ERROR_OUT_OF_MEMORY"
          : error == NO_DEVICE       ? "CUDA_ERROR_NO_DEVICE"
          : error == ILLEGAL_ADDRESS ? "CUDA_ERROR_ILLEGAL_ADDRESS"
                                     : "CUDA_ERROR_INVALID_VALUE";
  return OK;
}

/* The first card that CUDA_VISIBLE_DEVICES names, else the first one. */
CUresult cuInit(unsigned flags) {
  const char *visible = getenv("CUDA_VISIBLE_DEVICES");
  nvmlReturn_t result = end(begin_use());
  if (flags || result != NVML_SUCCESS) return flags ? INVALID : NO_DEVICE;
  for (unsigned i = 0; i < node.cards && !whole; i++) {
    if (visible && strcmp(visible, node.card[i].uuid)) continue;
    snprintf(uuid, TEXT, "%s", node.card[i].uuid);
    whole = (node.card[i].mib - node.card[i].reserved) * MIB;
  }
  return whole ? OK : NO_DEVICE;
}

CUresult cuDeviceGet(int *device, int index) { return *device = 0, index ? INVALID : OK; }

CUresult cuDeviceGetCount(int *count) { return *count = 1, whole ? OK : NO_DEVICE; }

/* HAMi-core asks how much a card can run at once. */
CUresult cuDeviceGetAttribute(int *value, int attribute __attribute__((unused)), int device __attribute__((unused))) {
  return *value = 64, OK;
}

CUresult cuDevicePrimaryCtxRetain(void **context, int device __attribute__((unused))) {
  *context = uuid;
  if (!retained && !take_memory(uuid, CONTEXT, whole)) return OUT_OF_MEMORY;
  return retained++, OK;
}

CUresult cuDevicePrimaryCtxRelease_v2(int device __attribute__((unused))) {
  if (!retained) return INVALID;
  if (!--retained) take_memory(uuid, -CONTEXT, whole);
  return OK;
}

CUresult cuCtxGetCurrent(void **context) { return *context = uuid, OK; }

CUresult cuCtxGetDevice(int *device) { return *device = 0, OK; }

CUresult cuCtxSetCurrent(void *context) { return context ? OK : INVALID; }

CUresult cuMemGetInfo_v2(size_t *free, size_t *total) {
  *total = whole;
  *free = whole - used_by_programs(uuid);
  return OK;
}

CUresult cuMemAlloc_v2(unsigned long long *address, size_t size) {
  if (!take_memory(uuid, size, whole)) return OUT_OF_MEMORY;
  *address = FIRST_ADDRESS + given;
  given += size;
  return OK;
}

CUresult cuMemAllocManaged(unsigned long long *address, size_t size, unsigned flags __attribute__((unused))) {
  return cuMemAlloc_v2(address, size);
}

CUresult cuMemAllocAsync(unsigned long long *address, size_t size, void *stream __attribute__((unused))) {
  return cuMemAlloc_v2(address, size);
}

/* HAMi-core asks how much the pool of the last function ever kept. */
CUresult cuDeviceGetMemPool(void **pool, int device __attribute__((unused))) { return *pool = uuid, OK; }

CUresult cuMemPoolGetAttribute(void *pool, int attribute __attribute__((unused)), unsigned long long *value) {
  return *value = given, pool ? OK : INVALID;
}

CUresult cuMemAllocPitch_v2(unsigned long long *address, size_t *pitch, size_t width, size_t height,
                            unsigned element __attribute__((unused))) {
  *pitch = width;
  return cuMemAlloc_v2(address, width * height);
}

CUresult cuArrayCreate_v2(void **handle, const array *wanted) {
  unsigned long long address = 0;
  CUresult result = cuMemAlloc_v2(&address, wanted->width * wanted->height * 4 * wanted->channels);
  *handle = (void *)address;
  return result;
}

CUresult cuMemsetD8_v2(unsigned long long address, unsigned char value __attribute__((unused)), size_t size) {
  if (address < FIRST_ADDRESS || address + size > FIRST_ADDRESS + given) return INVALID;
  nanosleep(&(struct timespec){0, (long)(size / MIB) * 10000}, NULL);
  return OK;
}

CUresult cuCtxSynchronize(void) { return faulted ? ILLEGAL_ADDRESS : OK; }

CUresult cuModuleLoadData(void **module, const void *image) { return *module = uuid, image ? OK : INVALID; }

CUresult cuModuleGetFunction(void **function, void *module, const char *name) {
  *function = module;
  return *name ? OK : INVALID;
}

CUresult cuLaunchKernel(void *function, unsigned x, unsigned y, unsigned z, unsigned in_x, unsigned in_y, unsigned in_z,
                        unsigned shared, void *stream, void **parameters, void **extra) {
  if (!function || x * y * z * in_x * in_y * in_z != 1 || shared || stream || extra) return INVALID;
  unsigned long long address = *(unsigned long long *)parameters[0];
  if (!faulted && (address < FIRST_ADDRESS || address >= FIRST_ADDRESS + given)) {
    faulted = true;
    tell_xid(uuid, XID_OF_FAULT);
  }
  return OK;
}
