/* How busy each process keeps a card. Of drivers before R550 there is only the first function, of some newer cards only
 * the second. */
#include <time.h>

#include "cards.h"

#define OF_OLD 1U
#define OF_NEW 2U
/* Some drivers answer that there are no samples with success, and no samples. */
#define WITHOUT_ERROR 4U

/* Samples that are newer than a time stamp in microseconds; one without a time stamp of its own is of now. */
static unsigned newer(struct card *card, unsigned long long than, nvmlProcessUtilizationInfo_v1_t *found) {
  struct timespec now;
  unsigned count = 0;
  clock_gettime(CLOCK_REALTIME, &now);
  for (unsigned i = 0; i < card->processes; i++) {
    nvmlProcessUtilizationInfo_v1_t sample = card->sample[i];
    if (!sample.timeStamp) sample.timeStamp = now.tv_sec * 1000000ULL + now.tv_nsec / 1000;
    if (sample.pid && sample.timeStamp > than) found[count++] = sample;
  }
  return count;
}

OF_DEVICE(nvmlDeviceGetProcessUtilization, nvmlProcessUtilizationSample_t *samples, unsigned *count,
          unsigned long long last)
ASK(nvmlDeviceGetProcessUtilization, samples, count, last)
BODY(nvmlDeviceGetProcessUtilization, nvmlProcessUtilizationSample_t *samples, unsigned *count,
     unsigned long long last) {
  nvmlProcessUtilizationInfo_v1_t found[MOST_PROCESSES];
  if (card->mig > 0 || !(card->samples & OF_OLD)) return NVML_ERROR_NOT_SUPPORTED;
  unsigned room = *count, none = card->samples & WITHOUT_ERROR ? NVML_SUCCESS : NVML_ERROR_NOT_FOUND;
  *count = newer(card, last, found);
  if (!*count) return none;
  *count = MOST_PROCESSES;
  if (!samples || room < MOST_PROCESSES) return NVML_ERROR_INSUFFICIENT_SIZE;
  *count = newer(card, last, found);
  for (unsigned i = 0; i < *count; i++)
    samples[i] = (nvmlProcessUtilizationSample_t){found[i].pid, found[i].timeStamp, found[i].smUtil, 0, 0, 0};
  return *count ? NVML_SUCCESS : none;
}

OF_DEVICE(nvmlDeviceGetProcessesUtilizationInfo, nvmlProcessesUtilizationInfo_t *info)
ASK(nvmlDeviceGetProcessesUtilizationInfo, info)
BODY(nvmlDeviceGetProcessesUtilizationInfo, nvmlProcessesUtilizationInfo_t *info) {
  if (card->mig > 0 || !(card->samples & OF_NEW)) return NVML_ERROR_NOT_SUPPORTED;
  nvmlProcessUtilizationInfo_v1_t found[MOST_PROCESSES];
  unsigned room = info->processSamplesCount;
  unsigned none = card->samples & WITHOUT_ERROR ? NVML_SUCCESS : NVML_ERROR_NOT_FOUND;
  info->processSamplesCount = newer(card, info->lastSeenTimeStamp, found);
  if (!info->processSamplesCount) return none;
  info->processSamplesCount = MOST_PROCESSES;
  if (!info->procUtilArray || room < MOST_PROCESSES) return NVML_ERROR_INSUFFICIENT_SIZE;
  info->processSamplesCount = newer(card, info->lastSeenTimeStamp, info->procUtilArray);
  return info->processSamplesCount ? NVML_SUCCESS : none;
}
