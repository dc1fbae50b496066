// A CUDA driver library that answers as the environment says. Its kernels compute
// nothing: an iteration takes a nanosecond.
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int number(const char *name, int otherwise) { const char *s = getenv(name); return s ? atoi(s) : otherwise; }

#define NOTHING(name) int name(void) { return 0; }
NOTHING(cuMemAlloc_v2) NOTHING(cuMemFree_v2) NOTHING(cuMemAllocHost_v2) NOTHING(cuMemFreeHost)
NOTHING(cuMemsetD8_v2) NOTHING(cuMemcpyDtoH_v2) NOTHING(cuMemcpyHtoDAsync_v2) NOTHING(cuMemcpyDtoHAsync_v2) NOTHING(cuStreamCreate)
NOTHING(cuStreamBeginCapture_v2) NOTHING(cuStreamEndCapture) NOTHING(cuGraphLaunch)
NOTHING(cuGraphExecDestroy) NOTHING(cuGraphDestroy) NOTHING(cuDeviceGet) NOTHING(cuDeviceGetUuid)
#ifndef OLD
NOTHING(cuGraphInstantiate_v2)
#endif

int cuInit(unsigned flags) { return number("FAKE_INIT", 0); }
int cuDriverGetVersion(int *v) { *v = number("FAKE_VERSION", 13000); return 0; }
int cuGetErrorName(int r, const char **s) { *s = "CUDA_ERROR"; return 0; }
int cuGetErrorString(int r, const char **s) { *s = "an error"; return 0; }
int cuDeviceGetName(char *s, int n, int d) { const char *name = getenv("FAKE_NAME"); strncpy(s, name ? name : "NVIDIA L4", n); return 0; }
int cuDeviceTotalMem_v2(size_t *n, int d) { *n = 24ull << 30; return 0; }
int cuDeviceGetAttribute(int *v, int a, int d) {
	*v = a == 20 ? number("FAKE_MODE", 0) : a == 75 ? number("FAKE_MAJOR", 8) : 58;
	return 0;
}
int cuCtxCreate_v2(void **c, unsigned flags, int d) { return number("FAKE_CONTEXT", 0); }
int cuModuleLoadDataEx(void **m, const void *text, unsigned n, int *options, void **values) { return number("FAKE_LOAD", 0); }
int cuMemGetInfo_v2(size_t *unused, size_t *total) { *unused = 300ull << 20; *total = 24ull << 30; return 0; }

static long iterations; // of what was launched
static int waits;

int cuModuleGetFunction(const char **f, void *m, const char *name) { *f = name[0] == 'c' ? "compute" : ""; return 0; }
int cuLaunchKernel(const char *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, void *s, void **args, void **extra) {
	if (*f) iterations += *(unsigned *)args[0];
	return 0;
}
// After a kernel that fails so does everything in its context.
int cuStreamSynchronize(void *s) {
	if (++waits > number("FAKE_FAIL_AFTER", 1 << 30)) return 719;
	struct timespec work = {0, iterations};
	iterations = 0;
	return nanosleep(&work, NULL);
}
