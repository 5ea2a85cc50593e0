/* The cards as they stand in the file, and how a function asks for one. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "nvml.h"

#define MIB (1024ULL * 1024ULL)
#define TEXT 96
#define MOST_CARDS 16
#define MOST_INSTANCES 8
#define MOST_PROCESSES 64
#define MOST_EVENTS 1024
#define MOST_HANDLES 256

struct handle {
  char uuid[TEXT];
};

struct instance {
  char uuid[TEXT];
  unsigned gpu, compute, slices, start;
  unsigned long long mib;
};

struct card {
  char uuid[TEXT], name[TEXT], bus[32];
  unsigned minor, major_capability, minor_capability, pci, busy, recovery;
  int mig; /* -1: it cannot */
  int events; /* what registering for its events returns */
  bool lost, no_recovery;
  unsigned long long mib, reserved, used;
  unsigned instances, processes, samples; /* samples: the functions that tell of them, as cards.py counts them */
  struct instance instance[MOST_INSTANCES];
  nvmlProcessInfo_t process[MOST_PROCESSES];
  nvmlProcessUtilizationInfo_v1_t sample[MOST_PROCESSES]; /* of the process at this place; without a pid there is none */
};

struct event {
  char uuid[TEXT];
  int xid;
  bool fails;
};

struct node {
  char driver[TEXT];
  int cuda, limits;
  unsigned cards, events;
  struct card card[MOST_CARDS];
  struct event event[MOST_EVENTS];
};

/* A program may have names such as `end` of its own. */
#pragma GCC visibility push(hidden)
/* What the file says; only between begin and end. */
extern struct node node;
extern struct handle handles[MOST_HANDLES];

/* Take the lock and read the file if it changed; `end` gives the lock back and returns the result that it is given. */
nvmlReturn_t begin(void);
nvmlReturn_t end(nvmlReturn_t result);
/* Begin for the file that this process is to read, and count it as a user. */
nvmlReturn_t begin_use(void);
nvmlReturn_t end_use(void);

/* The handle of a device, the same for as long as the process lives. */
nvmlDevice_t handle_of(const char *uuid);
/* The card of a handle, and the instance where it is a MIG device's, else NULL. */
nvmlReturn_t find(nvmlDevice_t device, struct card **card, struct instance **instance);

/* Which programs hold memory of cards, and limits of control groups: a file beside that of cards which all share. */
unsigned programs_on(const char *uuid, nvmlProcessInfo_t *found);
unsigned long long used_by_programs(const char *uuid);
/* Count bytes for this process; false where the card or a limit of its control group has no room for them. */
bool take_memory(const char *uuid, unsigned long long bytes, unsigned long long whole);
/* In bytes; 0 where a group has none. */
unsigned long long limit_of(const char *group);
bool set_limit(const char *group, unsigned long long bytes);
/* Write that a card has an Xid. */
void tell_xid(const char *uuid, int xid);
/* The file of cards. */
const char *path_of_cards(void);
nvmlReturn_t give_text(char *to, unsigned size, const char *from);
#pragma GCC visibility pop

/* A function of one device: OF_DEVICE declares it, ASK finds the device with the lock held, BODY answers. */
#define OF_DEVICE(name, ...)                                                                                 \
  static nvmlReturn_t body_##name(struct card *card, struct instance *instance, __VA_ARGS__);                \
  nvmlReturn_t name(nvmlDevice_t device, __VA_ARGS__)
#define ASK(name, ...)                                                                                       \
  {                                                                                                          \
    struct card *card = NULL;                                                                                \
    struct instance *instance = NULL;                                                                        \
    nvmlReturn_t result = begin();                                                                           \
    if (result == NVML_SUCCESS) result = find(device, &card, &instance);                                     \
    if (result == NVML_SUCCESS) result = body_##name(card, instance, __VA_ARGS__);                           \
    return end(result);                                                                                      \
  }
#define BODY(name, ...)                                                                                      \
  static nvmlReturn_t body_##name(struct card *card __attribute__((unused)),                                 \
                                  struct instance *instance __attribute__((unused)), __VA_ARGS__)
