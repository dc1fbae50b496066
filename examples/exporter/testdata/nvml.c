// A stand-in for libnvidia-ml.so.1: eight busy H100s on which pods share by
// time-slicing and MPS. Each reading takes what it took on two busy H100s, CPU
// time and all: COST_* are nanoseconds of it and of the clock, given when this is
// compiled. A group of calls is charged to one of them. As there, costly calls take
// place one after another, and whoever waits for his turn spends the time on a core.
#define _GNU_SOURCE
#include <nvml.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define GPUS 8
#define MIB (1ull << 20)

static uint64_t since(clockid_t clock) {
	struct timespec t;
	clock_gettime(clock, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static pthread_spinlock_t turn;

static void spend(uint64_t cpu, uint64_t wall) {
	pthread_spin_lock(&turn);
	uint64_t begun = since(CLOCK_MONOTONIC), at = since(CLOCK_THREAD_CPUTIME_ID);
	while (since(CLOCK_THREAD_CPUTIME_ID) - at < cpu) {
	}
	uint64_t past = since(CLOCK_MONOTONIC) - begun;
	if (past < wall) {
		struct timespec rest = {(wall - past) / 1000000000, (wall - past) % 1000000000};
		nanosleep(&rest, NULL);
	}
	pthread_spin_unlock(&turn);
}

// gpu is a device's number: a handle is that and one more.
static int gpu(nvmlDevice_t d) { return (int)(uintptr_t)d.handle - 1; }

// Every other GPU is shared by MPS. The processes of GPU g are 1000+10g and up;
// under MPS the first is the server.
static int mps(int g) { return g % 2; }
static int processes(int g) { return (int[]){3, 4, 4, 3}[g % 4]; }

// Parts in a hundred of the time, of each process under time-slicing.
static const unsigned parts[] = {40, 30, 10, 5};

static unsigned busy(int g) {
	unsigned sum = 0;
	for (int i = 0; i < processes(g); i++)
		sum += parts[i];
	return sum;
}

nvmlReturn_t nvmlInit_v2(void) {
	pthread_spin_init(&turn, PTHREAD_PROCESS_PRIVATE);
	return NVML_SUCCESS;
}
nvmlReturn_t nvmlShutdown(void) { return NVML_SUCCESS; }
const char *nvmlErrorString(nvmlReturn_t r) { return r == NVML_SUCCESS ? "Success" : "Error"; }

nvmlReturn_t nvmlSystemGetDriverVersion(char *out, unsigned n) {
	snprintf(out, n, "580.159.04");
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlSystemGetProcessName(unsigned pid, char *out, unsigned n) {
	int g = (pid - 1000) / 10;
	snprintf(out, n, mps(g) && pid % 10 == 0 ? "nvidia-cuda-mps-server" : "/usr/bin/python3");
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *n) {
	*n = GPUS;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned i, nvmlDevice_t *d) {
	d->handle = (void *)(uintptr_t)(i + 1);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t d, char *out, unsigned n) {
	snprintf(out, n, "GPU-00000000-0000-4000-8000-%012d", gpu(d));
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t d, char *out, unsigned n) {
	snprintf(out, n, "NVIDIA H100 80GB HBM3");
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t d, unsigned *minor) {
	*minor = gpu(d);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t d, unsigned *now, unsigned *next) {
	*now = *next = 0;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t d, nvmlUtilization_t *u) {
	spend(COST_BASIC);
	u->gpu = busy(gpu(d));
	u->memory = 30;
	return NVML_SUCCESS;
}

// The memory in use changes every 66 seconds: of 253 stretches of ten seconds in 134
// runs on H100 and H200, whose servers and jobs came and went, 38 had a change.
nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t d, nvmlMemory_v2_t *m) {
	m->total = 81559 * MIB;
	m->reserved = 600 * MIB;
	m->used = (20000 + 2 * (since(CLOCK_MONOTONIC) / 66000000000ull % 2)) * MIB;
	m->free = m->total - m->used;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t d, unsigned *milliwatts) {
	*milliwatts = 350000;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_t d, unsigned long long *millijoules) {
	spend(COST_ENERGY);
	*millijoules = since(CLOCK_MONOTONIC) / 1000000 * 350;
	return NVML_SUCCESS;
}

static nvmlReturn_t list(nvmlDevice_t d, int from, int to, unsigned *n, nvmlProcessInfo_t *out) {
	unsigned room = *n;
	*n = to - from;
	if (room < *n)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	for (int i = from; i < to; i++)
		out[i - from] = (nvmlProcessInfo_t){1000 + 10 * gpu(d) + i, (4000 + i) * MIB, ~0u, ~0u};
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t d, unsigned *n, nvmlProcessInfo_t *out) {
	nvmlReturn_t r = list(d, 0, mps(gpu(d)) ? 1 : processes(gpu(d)), n, out);
	if (r == NVML_SUCCESS)
		spend(COST_PROCESSES);
	return r;
}

nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v3(nvmlDevice_t d, unsigned *n, nvmlProcessInfo_t *out) {
	return list(d, 1, mps(gpu(d)) ? processes(gpu(d)) : 1, n, out);
}

nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t d, unsigned *n, nvmlProcessInfo_t *out) {
	*n = 0;
	return NVML_SUCCESS;
}

static uint64_t microseconds(void) { return since(CLOCK_REALTIME) / 1000; }

nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t d, nvmlProcessUtilizationSample_t *out, unsigned *n, unsigned long long last) {
	int g = gpu(d), all = mps(g) ? 1 : processes(g);
	if (out == NULL) {
		*n = all;
		return NVML_ERROR_INSUFFICIENT_SIZE;
	}
	spend(COST_PROCESS_UTIL);
	for (int i = 0; i < all; i++)
		out[i] = (nvmlProcessUtilizationSample_t){.pid = 1000 + 10 * g + i, .timeStamp = microseconds(), .smUtil = mps(g) ? busy(g) : parts[i]};
	*n = all;
	return NVML_SUCCESS;
}

// Six a second, and no more than 120.
nvmlReturn_t nvmlDeviceGetSamples(nvmlDevice_t d, nvmlSamplingType_t kind, unsigned long long last, nvmlValueType_t *type, unsigned *n, nvmlSample_t *out) {
	uint64_t now = microseconds(), step = 1000000 / 6, count = (now - last) / step;
	if (count > 120)
		count = 120;
	*type = NVML_VALUE_TYPE_UNSIGNED_INT;
	if (out == NULL) {
		*n = count;
		return NVML_SUCCESS;
	}
	spend(COST_SAMPLES);
	if (count > *n)
		count = *n;
	for (uint64_t i = 0; i < count; i++) {
		out[i].timeStamp = now - (count - 1 - i) * step;
		out[i].sampleValue.uiVal = busy(gpu(d));
	}
	*n = count;
	return NVML_SUCCESS;
}
