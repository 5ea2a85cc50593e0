/* Memory of cards that programs of the stand-in for CUDA hold, counted over all processes, and limits by the driver: a
 * file beside that of cards. A process that has ended holds nothing. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cards.h"

#define MOST_LIMITS 16

static struct shared {
  struct {
    char uuid[TEXT];
    pid_t pid;
    unsigned long long bytes;
  } program[MOST_PROCESSES];
  struct {
    char group[512];
    unsigned long long bytes;
  } limit[MOST_LIMITS];
} *shared;
static int file = -1;

/* With the lock of the file held until `unlock`; false where it cannot be had, or is not there and not to be made. */
static bool lock(bool make) {
  char path[4200];
  if (!shared) {
    snprintf(path, sizeof path, "%s.programs", path_of_cards());
    file = open(path, O_RDWR | O_CLOEXEC | (make ? O_CREAT : 0), 0666);
    if (file < 0 || ftruncate(file, sizeof *shared)) return false;
    void *mapped = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (mapped == MAP_FAILED) return false;
    shared = mapped;
  }
  if (flock(file, LOCK_EX)) return false;
  for (unsigned i = 0; i < MOST_PROCESSES; i++)
    if (shared->program[i].pid && kill(shared->program[i].pid, 0) && errno == ESRCH)
      memset(&shared->program[i], 0, sizeof shared->program[i]);
  return true;
}

static void unlock(void) { flock(file, LOCK_UN); }

unsigned programs_on(const char *uuid, nvmlProcessInfo_t *found) {
  unsigned count = 0;
  if (!lock(false)) return 0;
  for (unsigned i = 0; i < MOST_PROCESSES; i++)
    if (shared->program[i].pid && !strcmp(shared->program[i].uuid, uuid))
      found[count++] = (nvmlProcessInfo_t){(unsigned)shared->program[i].pid, shared->program[i].bytes, NVML_NO_INSTANCE,
                                           NVML_NO_INSTANCE};
  unlock();
  return count;
}

unsigned long long used_by_programs(const char *uuid) {
  nvmlProcessInfo_t found[MOST_PROCESSES];
  unsigned long long used = 0;
  for (unsigned i = programs_on(uuid, found); i > 0; i--) used += found[i - 1].usedGpuMemory;
  return used;
}

static bool has_pid(const char *group, pid_t pid) {
  char name[600];
  int each, found = 0;
  snprintf(name, sizeof name, "%s/cgroup.procs", group);
  FILE *pids = fopen(name, "re");
  while (pids && !found && fscanf(pids, "%d", &each) == 1) found = each == pid;
  if (pids) fclose(pids);
  return found;
}

/* The limit of this process's own group. */
static unsigned long long own_limit(void) {
  for (unsigned i = 0; i < MOST_LIMITS; i++)
    if (shared->limit[i].bytes && has_pid(shared->limit[i].group, getpid())) return shared->limit[i].bytes;
  return ~0ULL;
}

bool take_memory(const char *uuid, unsigned long long bytes, unsigned long long whole) {
  unsigned long long used = 0;
  int own = -1, empty = -1;
  if (!lock(true)) return false;
  for (int i = 0; i < MOST_PROCESSES; i++) {
    if (!shared->program[i].pid) empty = i;
    if (shared->program[i].pid == getpid()) own = i;
    if (!strcmp(shared->program[i].uuid, uuid)) used += shared->program[i].bytes;
  }
  if (own < 0) own = empty;
  bool fits = own >= 0 && used + bytes <= whole && shared->program[own].bytes + bytes <= own_limit();
  if (fits) {
    shared->program[own].pid = getpid();
    shared->program[own].bytes += bytes;
    snprintf(shared->program[own].uuid, TEXT, "%s", uuid);
  }
  unlock();
  return fits;
}

unsigned long long limit_of(const char *group) {
  unsigned long long found = 0;
  if (!lock(false)) return 0;
  for (unsigned i = 0; i < MOST_LIMITS; i++)
    if (!strcmp(shared->limit[i].group, group)) found = shared->limit[i].bytes;
  unlock();
  return found;
}

bool set_limit(const char *group, unsigned long long bytes) {
  if (!group || !lock(true)) return false;
  unsigned at = 0;
  while (at < MOST_LIMITS && *shared->limit[at].group && strcmp(shared->limit[at].group, group)) at++;
  if (at < MOST_LIMITS) {
    snprintf(shared->limit[at].group, sizeof shared->limit[at].group, "%s", group);
    shared->limit[at].bytes = bytes == ~0ULL ? 0 : bytes;
  }
  unlock();
  return at < MOST_LIMITS;
}

void tell_xid(const char *uuid, int xid) {
  FILE *cards = fopen(path_of_cards(), "ae");
  if (!cards) return;
  fprintf(cards, "event %s %d\n", uuid, xid);
  fclose(cards);
}
