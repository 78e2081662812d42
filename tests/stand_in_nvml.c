/* A stand-in for NVIDIA's libnvidia-ml.so.1 that plays one of a few scenarios, named in NVML_SCENARIO.
 *
 * Only what gpuwise asks is there; nvidia-ml-py says "function not found" for the rest, as with an old driver.
 * NVML_PID_FILE names a file with the number of the process that is to be seen on the GPU, NVML_LIMIT_FILE one in which the power
 * limit of the card is kept, in milliwatts, as a real card keeps it when the program that set it has ended.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef unsigned int uint;
typedef unsigned long long ull;
typedef struct { uint gpu, memory; } utilization;
typedef struct { ull total, free, used; } memory_info;
typedef struct { uint pid; ull used; uint gpu_instance, compute_instance; } process_info;
typedef struct { uint pid; ull stamp; uint sm, mem, enc, dec; } process_use;

enum { OK = 0, INVALID = 2, UNSUPPORTED = 3, NO_PERMISSION = 4, SMALL = 7, NOT_LOADED = 9, LOST = 15 };

static int questions = 0;

static int plays(const char *name) {
    const char *scenario = getenv("NVML_SCENARIO");
    return scenario != NULL && strcmp(scenario, name) == 0;
}

static uint own_pid(void) {
    const char *path = getenv("NVML_PID_FILE");
    FILE *file = path != NULL ? fopen(path, "r") : NULL;
    uint pid = 0;
    if (file != NULL) {
        if (fscanf(file, "%u", &pid) != 1) pid = 0;
        fclose(file);
    }
    return pid;
}

static uint kept_limit(void) {
    const char *path = getenv("NVML_LIMIT_FILE");
    FILE *file = path != NULL ? fopen(path, "r") : NULL;
    uint kept = plays("limited") ? 250000 : 350000;
    if (file != NULL) {
        if (fscanf(file, "%u", &kept) != 1) kept = 350000;
        fclose(file);
    }
    return kept;
}

/* After a few questions a driver is unloaded, a card falls off the bus, or nothing answers any more. */
static int fate(void) {
    if (questions < 3) return OK;
    if (plays("lost")) return LOST;
    if (plays("unloaded")) return NOT_LOADED;
    if (plays("silent")) sleep(600);
    return OK;
}

int nvmlInitWithFlags(uint flags) { (void)flags; return plays("forbidden") ? NO_PERMISSION : OK; }
int nvmlShutdown(void) { return OK; }
const char *nvmlErrorString(int code) { return code == LOST ? "GPU is lost" : code == NOT_LOADED ? "Driver Not Loaded" : "an error"; }
int nvmlSystemGetDriverVersion(char *text, uint size) { snprintf(text, size, "570.86.10"); return OK; }
int nvmlDeviceGetCount_v2(uint *count) { *count = 1; return OK; }
int nvmlDeviceGetHandleByIndex_v2(uint index, void **handle) { *handle = (void *)1; return index == 0 ? OK : INVALID; }
int nvmlDeviceGetHandleByUUID(const char *uuid, void **handle) { *handle = (void *)1; return strncmp(uuid, "GPU-", 4) == 0 ? OK : INVALID; }
int nvmlDeviceGetName(void *gpu, char *text, uint size) { (void)gpu; snprintf(text, size, "NVIDIA GeForce RTX 3090"); return OK; }

int nvmlDeviceGetUtilizationRates(void *gpu, utilization *use) {
    (void)gpu;
    questions++;
    use->gpu = plays("idle") ? 0 : 96;
    use->memory = plays("idle") ? 0 : 55;
    return fate();
}

int nvmlDeviceGetMemoryInfo(void *gpu, memory_info *memory) {
    (void)gpu;
    memory->total = 24ull << 30;
    memory->used = plays("spilled") ? memory->total - (100ull << 20) : 10ull << 30;
    memory->free = memory->total - memory->used;
    return OK;
}

int nvmlDeviceGetClockInfo(void *gpu, uint kind, uint *mhz) { (void)gpu; (void)kind; *mhz = plays("throttled") ? 1005 : 1695; return OK; }
int nvmlDeviceGetMaxClockInfo(void *gpu, uint kind, uint *mhz) { (void)gpu; (void)kind; *mhz = 2100; return OK; }
int nvmlDeviceGetPowerUsage(void *gpu, uint *milliwatts) { (void)gpu; *milliwatts = plays("throttled") ? 190000 : 330000; return OK; }
int nvmlDeviceGetEnforcedPowerLimit(void *gpu, uint *milliwatts) { (void)gpu; *milliwatts = kept_limit(); return OK; }
int nvmlDeviceGetPowerManagementLimitConstraints(void *gpu, uint *least, uint *most) { (void)gpu; *least = 100000; *most = 365000; return OK; }
int nvmlDeviceGetTotalEnergyConsumption(void *gpu, ull *millijoules) { (void)gpu; *millijoules = 5000000; return OK; }

int nvmlDeviceSetPowerManagementLimit(void *gpu, uint milliwatts) {
    const char *path = getenv("NVML_LIMIT_FILE");
    FILE *file;
    (void)gpu;
    if (plays("no_rights")) return NO_PERMISSION;
    if (milliwatts < 100000 || milliwatts > 365000) return INVALID;
    file = path != NULL ? fopen(path, "w") : NULL;
    if (file == NULL) return UNSUPPORTED;
    fprintf(file, "%u", milliwatts);
    fclose(file);
    return OK;
}

int nvmlDeviceGetPowerManagementLimit(void *gpu, uint *milliwatts) { return nvmlDeviceGetEnforcedPowerLimit(gpu, milliwatts); }
int nvmlDeviceGetPowerManagementDefaultLimit(void *gpu, uint *milliwatts) { (void)gpu; *milliwatts = 350000; return OK; }
int nvmlDeviceGetTemperature(void *gpu, uint sensor, uint *celsius) { (void)gpu; (void)sensor; *celsius = plays("throttled") ? 93 : 68; return OK; }
int nvmlDeviceGetCurrentClocksEventReasons(void *gpu, ull *bits) { (void)gpu; *bits = plays("throttled") ? 0x40 : 0x4; return OK; }
int nvmlDeviceGetCurrPcieLinkGeneration(void *gpu, uint *value) { (void)gpu; *value = 4; return OK; }
int nvmlDeviceGetMaxPcieLinkGeneration(void *gpu, uint *value) { (void)gpu; *value = 4; return OK; }
int nvmlDeviceGetCurrPcieLinkWidth(void *gpu, uint *value) { (void)gpu; *value = plays("x4") ? 4 : 16; return OK; }
int nvmlDeviceGetMaxPcieLinkWidth(void *gpu, uint *value) { (void)gpu; *value = 16; return OK; }

int nvmlDeviceGetPcieThroughput(void *gpu, uint counter, uint *kilobytes) {
    (void)gpu;
    *kilobytes = counter == 0 ? 200000 : plays("spilled") ? 14000000 : plays("x4") ? 4000000 : 900000;
    return OK;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *gpu, uint *count, process_info *found) {
    uint need = plays("shared") ? 2 : 1;
    (void)gpu;
    if (found == NULL || *count < need) { *count = need; return SMALL; }
    memset(found, 0, need * sizeof *found);
    found[0].pid = own_pid();
    found[0].used = 8ull << 30;
    if (need > 1) { found[1].pid = 4000000; found[1].used = 5ull << 30; }
    *count = need;
    return OK;
}

int nvmlDeviceGetProcessUtilization(void *gpu, process_use *found, uint *count, ull since) {
    (void)gpu;
    (void)since;
    if (found == NULL || *count < 2) { *count = 2; return SMALL; }
    memset(found, 0, 2 * sizeof *found);
    found[0].pid = own_pid(); found[0].sm = 60; found[0].stamp = 1;
    found[1].pid = 4000000; found[1].sm = plays("shared") ? 35 : 0; found[1].stamp = 1;
    *count = 2;
    return OK;
}
