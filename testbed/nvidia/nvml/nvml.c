/* NVML of a node and of its cards. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "cards.h"

/* Start and end */

nvmlReturn_t nvmlInitWithFlags(unsigned flags __attribute__((unused))) { return end(begin_use()); }
nvmlReturn_t nvmlInit_v2(void) { return end(begin_use()); }
nvmlReturn_t nvmlInit(void) { return end(begin_use()); }
nvmlReturn_t nvmlShutdown(void) { return end(end_use()); }

const char *nvmlErrorString(nvmlReturn_t result) {
  switch (result) {
    case NVML_SUCCESS: return "Success";
    case NVML_ERROR_UNINITIALIZED: return "Uninitialized";
    case NVML_ERROR_INVALID_ARGUMENT: return "Invalid Argument";
    case NVML_ERROR_NOT_SUPPORTED: return "Not Supported";
    case NVML_ERROR_NOT_FOUND: return "Not Found";
    case NVML_ERROR_INSUFFICIENT_SIZE: return "Insufficient Size";
    case NVML_ERROR_DRIVER_NOT_LOADED: return "Driver Not Loaded";
    case NVML_ERROR_TIMEOUT: return "Timeout";
    case NVML_ERROR_FUNCTION_NOT_FOUND: return "Function Not Found";
    case NVML_ERROR_GPU_IS_LOST: return "GPU is lost";
    case NVML_ERROR_ARGUMENT_VERSION_MISMATCH: return "Argument Version Mismatch";
    default: return "Unknown Error";
  }
}

/* The node */

nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned length) {
  nvmlReturn_t result = begin();
  return end(result ? result : give_text(version, length, node.driver));
}

nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned length) {
  nvmlReturn_t result = begin();
  return end(result ? result : give_text(version, length, node.driver));
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version) {
  nvmlReturn_t result = begin();
  *version = node.cuda;
  return end(result);
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version) { return nvmlSystemGetCudaDriverVersion_v2(version); }

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *count) {
  nvmlReturn_t result = begin();
  *count = node.cards;
  return end(result);
}

nvmlReturn_t nvmlDeviceGetCount(unsigned *count) { return nvmlDeviceGetCount_v2(count); }

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device) {
  nvmlReturn_t result = begin();
  if (result == NVML_SUCCESS) {
    if (index >= node.cards) return end(NVML_ERROR_INVALID_ARGUMENT);
    if (node.card[index].lost) return end(NVML_ERROR_GPU_IS_LOST);
    *device = handle_of(node.card[index].uuid);
  }
  return end(result);
}

nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned index, nvmlDevice_t *device) {
  return nvmlDeviceGetHandleByIndex_v2(index, device);
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device) {
  nvmlReturn_t result = begin();
  for (struct card *card = node.card; result == NVML_SUCCESS && card < node.card + node.cards; card++) {
    bool named = !strcmp(card->uuid, uuid);
    for (unsigned i = 0; i < card->instances; i++) named |= !strcmp(card->instance[i].uuid, uuid);
    if (named) {
      *device = handle_of(uuid);
      return end(card->lost ? NVML_ERROR_GPU_IS_LOST : NVML_SUCCESS);
    }
  }
  return end(result ? result : NVML_ERROR_NOT_FOUND);
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *bus, nvmlDevice_t *device) {
  nvmlReturn_t result = begin();
  for (struct card *card = node.card; result == NVML_SUCCESS && card < node.card + node.cards; card++) {
    /* Callers write the domain in four digits or in eight. */
    if (strlen(bus) >= 12 && !strcasecmp(card->bus + strlen(card->bus) - 12, bus + strlen(bus) - 12)) {
      *device = handle_of(card->uuid);
      return end(card->lost ? NVML_ERROR_GPU_IS_LOST : NVML_SUCCESS);
    }
  }
  return end(result ? result : NVML_ERROR_NOT_FOUND);
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char *bus, nvmlDevice_t *device) {
  return nvmlDeviceGetHandleByPciBusId_v2(bus, device);
}

/* A card */

OF_DEVICE(nvmlDeviceGetUUID, char *uuid, unsigned length) ASK(nvmlDeviceGetUUID, uuid, length)
BODY(nvmlDeviceGetUUID, char *uuid, unsigned length) {
  return give_text(uuid, length, instance ? instance->uuid : card->uuid);
}

OF_DEVICE(nvmlDeviceGetName, char *name, unsigned length) ASK(nvmlDeviceGetName, name, length)
BODY(nvmlDeviceGetName, char *name, unsigned length) {
  char of_instance[2 * TEXT];
  if (!instance) return give_text(name, length, card->name);
  snprintf(of_instance, sizeof of_instance, "%s MIG %ug.%llugb", card->name, instance->slices,
           (instance->mib + 1023) / 1024);
  return give_text(name, length, of_instance);
}

OF_DEVICE(nvmlDeviceGetIndex, unsigned *index) ASK(nvmlDeviceGetIndex, index)
BODY(nvmlDeviceGetIndex, unsigned *index) {
  *index = instance ? (unsigned)(instance - card->instance) : (unsigned)(card - node.card);
  return NVML_SUCCESS;
}

OF_DEVICE(nvmlDeviceGetMinorNumber, unsigned *minor) ASK(nvmlDeviceGetMinorNumber, minor)
BODY(nvmlDeviceGetMinorNumber, unsigned *minor) {
  *minor = card->minor;
  return NVML_SUCCESS;
}

OF_DEVICE(nvmlDeviceGetBrand, unsigned *brand) ASK(nvmlDeviceGetBrand, brand)
BODY(nvmlDeviceGetBrand, unsigned *brand) {
  *brand = 14; /* NVML_BRAND_NVIDIA */
  return NVML_SUCCESS;
}

OF_DEVICE(nvmlDeviceGetCudaComputeCapability, int *major, int *minor)
ASK(nvmlDeviceGetCudaComputeCapability, major, minor)
BODY(nvmlDeviceGetCudaComputeCapability, int *major, int *minor) {
  *major = (int)card->major_capability;
  *minor = (int)card->minor_capability;
  return NVML_SUCCESS;
}

OF_DEVICE(nvmlDeviceGetArchitecture, unsigned *architecture) ASK(nvmlDeviceGetArchitecture, architecture)
BODY(nvmlDeviceGetArchitecture, unsigned *architecture) {
  unsigned capability = card->major_capability * 10 + card->minor_capability;
  /* Volta, Turing, Ampere, Ada, Hopper, Blackwell */
  *architecture = capability < 75    ? 5
                  : capability < 80  ? 6
                  : capability < 89  ? 7
                  : capability < 90  ? 8
                  : capability < 100 ? 9
                                     : 10;
  return NVML_SUCCESS;
}

OF_DEVICE(nvmlDeviceGetPciInfo_v3, nvmlPciInfo_t *pci) ASK(nvmlDeviceGetPciInfo_v3, pci)
BODY(nvmlDeviceGetPciInfo_v3, nvmlPciInfo_t *pci) {
  memset(pci, 0, sizeof *pci);
  if (sscanf(card->bus, "%x:%x:%x", &pci->domain, &pci->bus, &pci->device) != 3) return NVML_ERROR_NOT_SUPPORTED;
  snprintf(pci->busId, sizeof pci->busId, "%08X:%02X:%02X.0", pci->domain, pci->bus & 0xffU, pci->device & 0xffU);
  snprintf(pci->busIdLegacy, sizeof pci->busIdLegacy, "%04X:%02X:%02X.0", pci->domain & 0xffffU, pci->bus & 0xffU,
           pci->device & 0xffU);
  pci->pciDeviceId = card->pci << 16 | 0x10DE;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPciInfo_v2(nvmlDevice_t device, nvmlPciInfo_t *pci) {
  return nvmlDeviceGetPciInfo_v3(device, pci);
}

/* Its structure ends before the bus in eight digits. */
nvmlReturn_t nvmlDeviceGetPciInfo(nvmlDevice_t device, void *pci) {
  nvmlPciInfo_t whole;
  nvmlReturn_t result = nvmlDeviceGetPciInfo_v3(device, &whole);
  if (result == NVML_SUCCESS) memcpy(pci, &whole, offsetof(nvmlPciInfo_t, busId));
  return result;
}

OF_DEVICE(nvmlDeviceGetComputeMode, unsigned *mode) ASK(nvmlDeviceGetComputeMode, mode)
BODY(nvmlDeviceGetComputeMode, unsigned *mode) {
  *mode = 0; /* NVML_COMPUTEMODE_DEFAULT: several processes at once */
  return NVML_SUCCESS;
}

OF_DEVICE(nvmlDeviceGetPersistenceMode, unsigned *mode) ASK(nvmlDeviceGetPersistenceMode, mode)
BODY(nvmlDeviceGetPersistenceMode, unsigned *mode) {
  *mode = 1; /* NVML_FEATURE_ENABLED */
  return NVML_SUCCESS;
}

/* Cards of one machine, without links of their own: what the device plugin asks before it prefers some. */

OF_DEVICE(nvmlDeviceGetTopologyCommonAncestor, nvmlDevice_t other, unsigned *level)
ASK(nvmlDeviceGetTopologyCommonAncestor, other, level)
BODY(nvmlDeviceGetTopologyCommonAncestor, nvmlDevice_t other __attribute__((unused)), unsigned *level) {
  *level = 40; /* NVML_TOPOLOGY_NODE */
  return NVML_SUCCESS;
}

OF_DEVICE(nvmlDeviceGetNvLinkState, unsigned link, unsigned *is_active) ASK(nvmlDeviceGetNvLinkState, link, is_active)
BODY(nvmlDeviceGetNvLinkState, unsigned link __attribute__((unused)), unsigned *is_active __attribute__((unused))) {
  return NVML_ERROR_NOT_SUPPORTED;
}

OF_DEVICE(nvmlDeviceGetMemoryInfo, nvmlMemory_t *memory) ASK(nvmlDeviceGetMemoryInfo, memory)
BODY(nvmlDeviceGetMemoryInfo, nvmlMemory_t *memory) {
  /* What the driver keeps counts as used here, and by itself in version 2. */
  memory->total = (instance ? instance->mib : card->mib) * MIB;
  memory->used = instance ? 0 : (card->reserved + card->used) * MIB + used_by_programs(card->uuid);
  memory->free = memory->total - memory->used;
  return NVML_SUCCESS;
}

OF_DEVICE(nvmlDeviceGetMemoryInfo_v2, nvmlMemory_v2_t *memory) ASK(nvmlDeviceGetMemoryInfo_v2, memory)
BODY(nvmlDeviceGetMemoryInfo_v2, nvmlMemory_v2_t *memory) {
  if (memory->version != NVML_MEMORY_V2) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  memory->total = (instance ? instance->mib : card->mib) * MIB;
  memory->reserved = (instance ? 0 : card->reserved) * MIB;
  memory->used = instance ? 0 : card->used * MIB + used_by_programs(card->uuid);
  memory->free = memory->total - memory->reserved - memory->used;
  return NVML_SUCCESS;
}

OF_DEVICE(nvmlDeviceGetUtilizationRates, nvmlUtilization_t *busy) ASK(nvmlDeviceGetUtilizationRates, busy)
BODY(nvmlDeviceGetUtilizationRates, nvmlUtilization_t *busy) {
  if (card->mig > 0) return NVML_ERROR_NOT_SUPPORTED;
  *busy = (nvmlUtilization_t){card->busy, 0};
  return NVML_SUCCESS;
}

OF_DEVICE(nvmlDeviceGetComputeRunningProcesses_v3, unsigned *count, nvmlProcessInfo_t *processes)
ASK(nvmlDeviceGetComputeRunningProcesses_v3, count, processes)
BODY(nvmlDeviceGetComputeRunningProcesses_v3, unsigned *count, nvmlProcessInfo_t *processes) {
  nvmlProcessInfo_t found[2 * MOST_PROCESSES];
  unsigned room = *count;
  memcpy(found, card->process, card->processes * sizeof *found);
  *count = card->processes + programs_on(card->uuid, found + card->processes);
  if (room < *count) return NVML_ERROR_INSUFFICIENT_SIZE;
  if (processes) memcpy(processes, found, *count * sizeof *found);
  return NVML_SUCCESS;
}

/* Without instances, which its structure does not have. */
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t device, unsigned *count, nvmlProcessInfo_v1_t *given) {
  nvmlProcessInfo_t found[2 * MOST_PROCESSES];
  nvmlReturn_t result = nvmlDeviceGetComputeRunningProcesses_v3(device, count, given ? found : NULL);
  for (unsigned i = 0; result == NVML_SUCCESS && given && i < *count; i++)
    given[i] = (nvmlProcessInfo_v1_t){found[i].pid, found[i].usedGpuMemory};
  return result;
}

OF_DEVICE(nvmlDeviceGetFieldValues, int count, nvmlFieldValue_t *values)
ASK(nvmlDeviceGetFieldValues, count, values)
BODY(nvmlDeviceGetFieldValues, int count, nvmlFieldValue_t *values) {
  for (int i = 0; i < count; i++) {
    bool answered = values[i].fieldId == NVML_FI_DEV_GET_GPU_RECOVERY_ACTION && !card->no_recovery;
    values[i].nvmlReturn = answered ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
    values[i].valueType = NVML_VALUE_TYPE_UNSIGNED_INT;
    values[i].value.ullVal = answered ? card->recovery : 0;
  }
  return NVML_SUCCESS;
}

OF_DEVICE(nvmlDeviceGetMemoryLimits_v1, nvmlGetMemoryLimits_v1_t *limits) ASK(nvmlDeviceGetMemoryLimits_v1, limits)
BODY(nvmlDeviceGetMemoryLimits_v1, nvmlGetMemoryLimits_v1_t *limits) {
  *limits = (nvmlGetMemoryLimits_v1_t){limits->nameSpace, 0, ~0ULL, 0};
  limits->hardLimit = limit_of(limits->nameSpace ? limits->nameSpace : "");
  if (limits->hardLimit) return NVML_SUCCESS;
  limits->hardLimit = ~0ULL;
  return node.limits;
}

OF_DEVICE(nvmlDeviceSetMemoryLimits_v1, nvmlSetMemoryLimits_v1_t *limits) ASK(nvmlDeviceSetMemoryLimits_v1, limits)
BODY(nvmlDeviceSetMemoryLimits_v1, nvmlSetMemoryLimits_v1_t *limits) {
  if (node.limits == NVML_ERROR_FUNCTION_NOT_FOUND) return node.limits;
  return set_limit(limits->nameSpace, limits->hardLimit) ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}
