/* A library with NVML's ABI whose cards stand in a file: NVIDIA's toolkit, device plugin and GPU feature discovery,
 * and pynvml, look for libnvidia-ml.so.1 by name and are content with it.
 *
 * The file is NVML_CARDS, or `cards` beside the library, and is read again whenever it changes. cards.py writes
 * it and says what its lines mean. What is wrong with a file is said on stderr, and no call succeeds.
 *
 * Devices that were ever seen keep their handles; one that the file names no more is lost. */
#define _GNU_SOURCE
#include "cards.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int users;
static char path[4096];
static struct stat seen;
struct node node;
struct handle handles[MOST_HANDLES];
static unsigned known;

/* The file */

static bool text_of(char *to, size_t size, const char *from) {
  return (size_t)snprintf(to, size, "%s", from) < size && *from;
}

static bool take_card_line(struct card *card, const char *key, const char *value) {
  if (!strcmp(key, "uuid")) return text_of(card->uuid, TEXT, value);
  if (!strcmp(key, "name")) return text_of(card->name, TEXT, value);
  if (!strcmp(key, "bus")) return text_of(card->bus, sizeof card->bus, value);
  if (!strcmp(key, "pci")) return sscanf(value, "%x", &card->pci) == 1;
  if (!strcmp(key, "minor")) return sscanf(value, "%u", &card->minor) == 1;
  if (!strcmp(key, "capability"))
    return sscanf(value, "%u.%u", &card->major_capability, &card->minor_capability) == 2;
  if (!strcmp(key, "memory"))
    return sscanf(value, "%llu %llu %llu", &card->mib, &card->reserved, &card->used) == 3;
  if (!strcmp(key, "busy")) return sscanf(value, "%u", &card->busy) == 1;
  if (!strcmp(key, "samples")) return sscanf(value, "%u", &card->samples) == 1;
  if (!strcmp(key, "mig")) return sscanf(value, "%d", &card->mig) == 1;
  if (!strcmp(key, "events")) return sscanf(value, "%d", &card->events) == 1;
  if (!strcmp(key, "lost")) return card->lost = true;
  if (!strcmp(key, "recovery"))
    return (card->no_recovery = !strcmp(value, "unknown")) || sscanf(value, "%u", &card->recovery) == 1;
  if (!strcmp(key, "process") && card->processes < MOST_PROCESSES) {
    nvmlProcessUtilizationInfo_v1_t *sample = &card->sample[card->processes];
    nvmlProcessInfo_t *process = &card->process[card->processes++];
    long long mib;
    int given = sscanf(value, "%u %lld %u %llu", &process->pid, &mib, &sample->smUtil, &sample->timeStamp);
    if (given < 2) return false;
    sample->pid = given > 2 ? process->pid : 0;
    process->usedGpuMemory = mib < 0 ? NVML_VALUE_NOT_AVAILABLE : mib * MIB;
    process->gpuInstanceId = process->computeInstanceId = NVML_NO_INSTANCE;
    return true;
  }
  if (!strcmp(key, "instance") && card->instances < MOST_INSTANCES) {
    struct instance *made = &card->instance[card->instances++];
    return sscanf(value, "%95s %u %u %u %u %llu", made->uuid, &made->gpu, &made->compute, &made->start, &made->slices,
                  &made->mib) == 6;
  }
  return false;
}

static bool take_line(struct node *read, const char *key, const char *value) {
  if (!strcmp(key, "driver")) return text_of(read->driver, TEXT, value);
  if (!strcmp(key, "cuda")) return sscanf(value, "%d", &read->cuda) == 1;
  if (!strcmp(key, "limits")) return sscanf(value, "%d", &read->limits) == 1;
  if (!strcmp(key, "event") && read->events < MOST_EVENTS) {
    struct event *event = &read->event[read->events++];
    return sscanf(value, "%95s %d", event->uuid, &event->xid) == 2;
  }
  if (!strcmp(key, "failure") && read->events < MOST_EVENTS) {
    struct event *event = &read->event[read->events++];
    return event->fails = sscanf(value, "%d", &event->xid) == 1;
  }
  if (!strcmp(key, "card") && read->cards < MOST_CARDS) {
    read->card[read->cards].mig = -1;
    read->cards++;
    return true;
  }
  return read->cards && take_card_line(&read->card[read->cards - 1], key, value);
}

static bool read_file(struct node *read) {
  FILE *file = fopen(path, "re");
  if (!file) return false;
  memset(read, 0, sizeof *read);
  read->limits = NVML_ERROR_FUNCTION_NOT_FOUND;
  char line[512];
  bool good = true;
  for (int number = 1; good && fgets(line, sizeof line, file); number++) {
    line[strcspn(line, "\n")] = '\0';
    char *value = line + strcspn(line, " ");
    if (*value) *value++ = '\0';
    good = take_line(read, line, value);
    if (!good) fprintf(stderr, "%s:%d: what is %s?\n", path, number, line);
  }
  fclose(file);
  return good;
}

nvmlDevice_t handle_of(const char *uuid) {
  for (unsigned i = 0; i < known; i++)
    if (!strcmp(handles[i].uuid, uuid)) return &handles[i];
  if (known == MOST_HANDLES) return NULL;
  snprintf(handles[known].uuid, TEXT, "%s", uuid);
  return &handles[known++];
}

/* With the lock held. */
static nvmlReturn_t refresh(void) {
  static struct node read;
  struct stat now;
  if (!users) return NVML_ERROR_UNINITIALIZED;
  if (stat(path, &now)) return NVML_ERROR_DRIVER_NOT_LOADED;
  if (now.st_ino == seen.st_ino && now.st_mtim.tv_nsec == seen.st_mtim.tv_nsec &&
      now.st_mtim.tv_sec == seen.st_mtim.tv_sec && now.st_size == seen.st_size)
    return NVML_SUCCESS;
  if (!read_file(&read)) return NVML_ERROR_DRIVER_NOT_LOADED;
  node = read;
  seen = now;
  return NVML_SUCCESS;
}

nvmlReturn_t begin(void) {
  pthread_mutex_lock(&lock);
  return refresh();
}

nvmlReturn_t end(nvmlReturn_t result) {
  pthread_mutex_unlock(&lock);
  return result;
}

nvmlReturn_t find(nvmlDevice_t device, struct card **card, struct instance **instance) {
  *instance = NULL;
  if (!device) return NVML_ERROR_INVALID_ARGUMENT;
  for (*card = node.card; *card < node.card + node.cards; (*card)++) {
    if (!strcmp((*card)->uuid, device->uuid)) return (*card)->lost ? NVML_ERROR_GPU_IS_LOST : NVML_SUCCESS;
    for (unsigned i = 0; i < (*card)->instances; i++)
      if (!strcmp((*card)->instance[i].uuid, device->uuid)) {
        *instance = &(*card)->instance[i];
        return (*card)->lost ? NVML_ERROR_GPU_IS_LOST : NVML_SUCCESS;
      }
  }
  return NVML_ERROR_GPU_IS_LOST;
}

static void choose_path(void) {
  Dl_info self;
  const char *given = getenv("NVML_CARDS");
  if (given)
    snprintf(path, sizeof path, "%s", given);
  else if (dladdr((void *)choose_path, &self))
    snprintf(path, sizeof path, "%.*s/cards", (int)(strrchr(self.dli_fname, '/') - self.dli_fname), self.dli_fname);
}

const char *path_of_cards(void) { return path; }

nvmlReturn_t begin_use(void) {
  pthread_mutex_lock(&lock);
  users++;
  choose_path();
  memset(&seen, 0, sizeof seen);
  nvmlReturn_t result = refresh();
  if (result != NVML_SUCCESS) users--;
  return result;
}

nvmlReturn_t end_use(void) {
  pthread_mutex_lock(&lock);
  return users ? (users--, NVML_SUCCESS) : NVML_ERROR_UNINITIALIZED;
}

nvmlReturn_t give_text(char *to, unsigned size, const char *from) {
  return (unsigned)snprintf(to, size, "%s", from) < size ? NVML_SUCCESS : NVML_ERROR_INSUFFICIENT_SIZE;
}
