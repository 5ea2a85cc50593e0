/* NVML of cards in MIG mode: their GPU instances, each with one compute instance. */
#include "cards.h"

OF_DEVICE(nvmlDeviceGetMigMode, unsigned *now, unsigned *pending) ASK(nvmlDeviceGetMigMode, now, pending)
BODY(nvmlDeviceGetMigMode, unsigned *now, unsigned *pending) {
  if (card->mig < 0 || instance) return NVML_ERROR_NOT_SUPPORTED;
  *now = *pending = (unsigned)card->mig;
  return NVML_SUCCESS;
}

OF_DEVICE(nvmlDeviceIsMigDeviceHandle, unsigned *is) ASK(nvmlDeviceIsMigDeviceHandle, is)
BODY(nvmlDeviceIsMigDeviceHandle, unsigned *is) {
  *is = instance != NULL;
  return NVML_SUCCESS;
}

OF_DEVICE(nvmlDeviceGetMaxMigDeviceCount, unsigned *count) ASK(nvmlDeviceGetMaxMigDeviceCount, count)
BODY(nvmlDeviceGetMaxMigDeviceCount, unsigned *count) {
  *count = card->mig < 0 ? 0 : MOST_INSTANCES;
  return NVML_SUCCESS;
}

OF_DEVICE(nvmlDeviceGetMigDeviceHandleByIndex, unsigned index, nvmlDevice_t *found)
ASK(nvmlDeviceGetMigDeviceHandleByIndex, index, found)
BODY(nvmlDeviceGetMigDeviceHandleByIndex, unsigned index, nvmlDevice_t *found) {
  if (index >= card->instances) return NVML_ERROR_NOT_FOUND;
  *found = handle_of(card->instance[index].uuid);
  return NVML_SUCCESS;
}

OF_DEVICE(nvmlDeviceGetDeviceHandleFromMigDeviceHandle, nvmlDevice_t *found)
ASK(nvmlDeviceGetDeviceHandleFromMigDeviceHandle, found)
BODY(nvmlDeviceGetDeviceHandleFromMigDeviceHandle, nvmlDevice_t *found) {
  if (!instance) return NVML_ERROR_INVALID_ARGUMENT;
  *found = handle_of(card->uuid);
  return NVML_SUCCESS;
}

OF_DEVICE(nvmlDeviceGetGpuInstanceId, unsigned *id) ASK(nvmlDeviceGetGpuInstanceId, id)
BODY(nvmlDeviceGetGpuInstanceId, unsigned *id) {
  if (!instance) return NVML_ERROR_INVALID_ARGUMENT;
  *id = instance->gpu;
  return NVML_SUCCESS;
}

OF_DEVICE(nvmlDeviceGetComputeInstanceId, unsigned *id) ASK(nvmlDeviceGetComputeInstanceId, id)
BODY(nvmlDeviceGetComputeInstanceId, unsigned *id) {
  if (!instance) return NVML_ERROR_INVALID_ARGUMENT;
  *id = instance->compute;
  return NVML_SUCCESS;
}

OF_DEVICE(nvmlDeviceGetAttributes_v2, nvmlDeviceAttributes_t *attributes)
ASK(nvmlDeviceGetAttributes_v2, attributes)
BODY(nvmlDeviceGetAttributes_v2, nvmlDeviceAttributes_t *attributes) {
  if (!instance) return NVML_ERROR_NOT_SUPPORTED;
  *attributes = (nvmlDeviceAttributes_t){.multiprocessorCount = 14 * instance->slices,
                                         .sharedCopyEngineCount = instance->slices,
                                         .gpuInstanceSliceCount = instance->slices,
                                         .computeInstanceSliceCount = instance->slices,
                                         .memorySizeMB = instance->mib};
  return NVML_SUCCESS;
}

/* Profiles by NVML's numbers: 1, 2, 3, 4, 7 and 8 slices; a profile's id is its number here. */
static const unsigned SLICES[] = {1, 2, 3, 4, 7, 8};
static const unsigned MEMORY[] = {1, 2, 4, 4, 8, 8};
#define PROFILES (sizeof SLICES / sizeof *SLICES)

static unsigned profile_of(unsigned slices) {
  unsigned number = 0;
  while (number < PROFILES - 1 && SLICES[number] != slices) number++;
  return number;
}

OF_DEVICE(nvmlDeviceGetGpuInstanceProfileInfo, unsigned profile, nvmlGpuInstanceProfileInfo_t *info)
ASK(nvmlDeviceGetGpuInstanceProfileInfo, profile, info)
BODY(nvmlDeviceGetGpuInstanceProfileInfo, unsigned profile, nvmlGpuInstanceProfileInfo_t *info) {
  if (card->mig < 0 || profile >= PROFILES) return NVML_ERROR_NOT_SUPPORTED;
  *info = (nvmlGpuInstanceProfileInfo_t){.id = profile,
                                         .sliceCount = SLICES[profile],
                                         .instanceCount = 7 / SLICES[profile],
                                         .memorySizeMB = card->mib * MEMORY[profile] / 8};
  return NVML_SUCCESS;
}

/* Without room for placements the caller asks how many there are. */
OF_DEVICE(nvmlDeviceGetGpuInstancePossiblePlacements_v2, unsigned profile,
          nvmlGpuInstancePlacement_t *placements, unsigned *count)
ASK(nvmlDeviceGetGpuInstancePossiblePlacements_v2, profile, placements, count)
BODY(nvmlDeviceGetGpuInstancePossiblePlacements_v2, unsigned profile, nvmlGpuInstancePlacement_t *placements,
     unsigned *count) {
  if (card->mig <= 0 || profile >= PROFILES) return NVML_ERROR_NOT_SUPPORTED;
  *count = 7 / SLICES[profile];
  for (unsigned i = 0; placements && i < *count; i++)
    placements[i] = (nvmlGpuInstancePlacement_t){i * MEMORY[profile], MEMORY[profile]};
  return NVML_SUCCESS;
}

OF_DEVICE(nvmlDeviceGetGpuInstanceById, unsigned id, nvmlGpuInstance_t *found)
ASK(nvmlDeviceGetGpuInstanceById, id, found)
BODY(nvmlDeviceGetGpuInstanceById, unsigned id, nvmlGpuInstance_t *found) {
  for (unsigned i = 0; i < card->instances; i++)
    if (card->instance[i].gpu == id) {
      *found = (nvmlGpuInstance_t)handle_of(card->instance[i].uuid);
      return NVML_SUCCESS;
    }
  return NVML_ERROR_NOT_FOUND;
}

/* A GPU instance and its one compute instance are the handle of the MIG device that they make. */
static nvmlReturn_t begin_instance(void *given, struct card **card, struct instance **instance) {
  nvmlReturn_t result = begin();
  if (result == NVML_SUCCESS) result = find(given, card, instance);
  return result == NVML_SUCCESS && !*instance ? NVML_ERROR_INVALID_ARGUMENT : result;
}

nvmlReturn_t nvmlGpuInstanceGetInfo(nvmlGpuInstance_t given, nvmlGpuInstanceInfo_t *info) {
  struct card *card;
  struct instance *instance;
  nvmlReturn_t result = begin_instance(given, &card, &instance);
  if (result == NVML_SUCCESS)
    *info = (nvmlGpuInstanceInfo_t){handle_of(card->uuid), instance->gpu, profile_of(instance->slices),
                                    instance->start, instance->slices};
  return end(result);
}

nvmlReturn_t nvmlGpuInstanceGetComputeInstanceById(nvmlGpuInstance_t given, unsigned id,
                                                   nvmlComputeInstance_t *found) {
  struct card *card;
  struct instance *instance;
  nvmlReturn_t result = begin_instance(given, &card, &instance);
  if (result == NVML_SUCCESS && instance->compute != id) result = NVML_ERROR_NOT_FOUND;
  *found = given;
  return end(result);
}

nvmlReturn_t nvmlComputeInstanceGetInfo_v2(nvmlComputeInstance_t given, nvmlComputeInstanceInfo_t *info) {
  struct card *card;
  struct instance *instance;
  nvmlReturn_t result = begin_instance(given, &card, &instance);
  if (result == NVML_SUCCESS)
    *info = (nvmlComputeInstanceInfo_t){handle_of(card->uuid), given, instance->compute,
                                        profile_of(instance->slices), 0, instance->slices};
  return end(result);
}

nvmlReturn_t nvmlGpuInstanceGetComputeInstanceProfileInfo(nvmlGpuInstance_t given, unsigned profile, unsigned engine,
                                                          nvmlComputeInstanceProfileInfo_t *info) {
  struct card *card;
  struct instance *instance;
  nvmlReturn_t result = begin_instance(given, &card, &instance);
  if (result == NVML_SUCCESS && (engine || profile >= PROFILES)) result = NVML_ERROR_NOT_SUPPORTED;
  if (result == NVML_SUCCESS)
    *info = (nvmlComputeInstanceProfileInfo_t){.id = profile, .sliceCount = SLICES[profile], .instanceCount = 1};
  return end(result);
}
