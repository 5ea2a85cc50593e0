/* NVML's events: a set tells those that are added to the file after it was made, each once. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "cards.h"

struct eventSet {
  unsigned told, waiting;
  bool undefined;
  bool watched[MOST_HANDLES];
};

nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set) {
  nvmlReturn_t result = begin();
  if (result == NVML_SUCCESS) {
    *set = calloc(1, sizeof **set);
    (*set)->told = node.events;
  }
  return end(result);
}

/* The driver's library does as it likes where somebody waits on a set that is freed. This one ends the process. */
nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set) {
  nvmlReturn_t result = begin();
  if (set->waiting) {
    fputs("nvmlEventSetFree: a thread still waits on this set\n", stderr);
    abort();
  }
  free(set);
  return end(result);
}

OF_DEVICE(nvmlDeviceGetSupportedEventTypes, unsigned long long *types)
ASK(nvmlDeviceGetSupportedEventTypes, types)
BODY(nvmlDeviceGetSupportedEventTypes, unsigned long long *types) {
  *types = NVML_EVENT_TYPE_XID | NVML_EVENT_TYPES_ECC;
  return NVML_SUCCESS;
}

OF_DEVICE(nvmlDeviceRegisterEvents, unsigned long long types, nvmlEventSet_t set)
ASK(nvmlDeviceRegisterEvents, types, set)
BODY(nvmlDeviceRegisterEvents, unsigned long long types, nvmlEventSet_t set) {
  /* The documentation calls a set undefined then, and wants it freed. */
  set->undefined |= card->events && card->events != NVML_ERROR_NOT_SUPPORTED;
  if (card->events) return card->events;
  if (types & NVML_EVENT_TYPE_XID) set->watched[handle_of(card->uuid) - handles] = true;
  return NVML_SUCCESS;
}

static nvmlReturn_t next_event(nvmlEventSet_t set, nvmlEventData_t *data) {
  while (set->told < node.events) {
    struct event *event = &node.event[set->told++];
    if (event->fails) return event->xid;
    nvmlDevice_t device = handle_of(event->uuid);
    if (!set->watched[device - handles]) continue;
    *data = (nvmlEventData_t){device, NVML_EVENT_TYPE_XID, (unsigned long long)event->xid, NVML_NO_INSTANCE,
                              NVML_NO_INSTANCE};
    return NVML_SUCCESS;
  }
  return NVML_ERROR_TIMEOUT;
}

nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *data, unsigned milliseconds) {
  nvmlReturn_t result = begin();
  if (set->undefined) {
    fputs("nvmlEventSetWait: registering failed in this set, and it is undefined\n", stderr);
    abort();
  }
  set->waiting++;
  for (unsigned waited = 0;; waited += 10, result = begin()) {
    if (result == NVML_SUCCESS) result = next_event(set, data);
    bool over = result != NVML_ERROR_TIMEOUT || waited >= milliseconds;
    set->waiting -= over;
    end(result);
    if (over) return result;
    nanosleep(&(struct timespec){0, 10 * 1000 * 1000}, NULL);
  }
}
