//go:build linux && cgo

#define _GNU_SOURCE
#include "driver.h"
#include <dlfcn.h>
#include <link.h>

// The functions that are called, as their prototypes stand in the driver API's
// documentation: the library's name of each, ours, and its parameters.
#define FUNCTIONS(X) \
	X(cuInit, init, (unsigned)) \
	X(cuDriverGetVersion, driverVersion, (int *)) \
	X(cuGetErrorName, errorName, (CUresult, const char **)) \
	X(cuGetErrorString, errorString, (CUresult, const char **)) \
	X(cuDeviceGet, deviceGet, (CUdevice *, int)) \
	X(cuDeviceGetName, deviceName, (char *, int, CUdevice)) \
	X(cuDeviceGetUuid, deviceUuid, (CUuuid *, CUdevice)) \
	X(cuDeviceGetAttribute, deviceAttribute, (int *, int, CUdevice)) \
	X(cuDeviceTotalMem_v2, deviceMemory, (size_t *, CUdevice)) \
	X(cuCtxCreate_v2, contextCreate, (CUcontext *, unsigned, CUdevice)) \
	X(cuModuleLoadDataEx, moduleLoad, (CUmodule *, const void *, unsigned, int *, void **)) \
	X(cuModuleGetFunction, moduleFunction, (CUfunction *, CUmodule, const char *)) \
	X(cuMemGetInfo_v2, memoryInfo, (size_t *, size_t *)) \
	X(cuMemAlloc_v2, alloc, (CUdeviceptr *, size_t)) \
	X(cuMemFree_v2, release, (CUdeviceptr)) \
	X(cuMemsetD8_v2, fill, (CUdeviceptr, unsigned char, size_t)) \
	X(cuMemcpyDtoH_v2, read, (void *, CUdeviceptr, size_t)) \
	X(cuMemcpyHtoDAsync_v2, toDevice, (CUdeviceptr, const void *, size_t, CUstream)) \
	X(cuMemcpyDtoHAsync_v2, fromDevice, (void *, CUdeviceptr, size_t, CUstream)) \
	X(cuStreamCreate, streamCreate, (CUstream *, unsigned)) \
	X(cuStreamSynchronize, streamWait, (CUstream)) \
	X(cuStreamBeginCapture_v2, captureBegin, (CUstream, int)) \
	X(cuStreamEndCapture, captureEnd, (CUstream, CUgraph *)) \
	X(cuGraphInstantiate_v2, graphInstantiate, (CUgraphExec *, CUgraph, void **, char *, size_t)) \
	X(cuGraphLaunch, graphLaunch, (CUgraphExec, CUstream)) \
	X(cuGraphExecDestroy, graphExecDestroy, (CUgraphExec)) \
	X(cuGraphDestroy, graphDestroy, (CUgraph)) \
	X(cuLaunchKernel, launch, (CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void **, void **))


#define X(name, ours, params) static CUresult(*p_##ours) params;
FUNCTIONS(X)
#undef X

const char *opened(const char *library, char **path) {
	void *h = dlopen(library, RTLD_NOW | RTLD_LOCAL);
	if (!h) return dlerror();
	struct link_map *m;
	if (dlinfo(h, RTLD_DI_LINKMAP, &m) == 0) *path = m->l_name;
#define X(name, ours, params) if (!(*(void **)&p_##ours = dlsym(h, #name))) return "it has no " #name;
	FUNCTIONS(X)
#undef X
	return NULL;
}

CUresult c_init(void) { return p_init(0); }
CUresult c_version(int *v) { return p_driverVersion(v); }
const char *c_errorName(CUresult r) { const char *s = NULL; p_errorName(r, &s); return s; }
const char *c_errorText(CUresult r) { const char *s = NULL; p_errorString(r, &s); return s; }
CUresult c_device(CUdevice *d, int i) { return p_deviceGet(d, i); }
CUresult c_name(char *s, int n, CUdevice d) { return p_deviceName(s, n, d); }
CUresult c_uuid(CUuuid *u, CUdevice d) { return p_deviceUuid(u, d); }
CUresult c_attribute(int *v, int a, CUdevice d) { return p_deviceAttribute(v, a, d); }
CUresult c_total(size_t *n, CUdevice d) { return p_deviceMemory(n, d); }
CUresult c_context(CUcontext *c, CUdevice d) { return p_contextCreate(c, 0, d); }
// 5 and 6 are CU_JIT_ERROR_LOG_BUFFER and its size.
CUresult c_load(CUmodule *m, const void *text, char *log, size_t n) {
	int options[2] = {5, 6};
	void *values[2] = {log, (void *)n};
	return p_moduleLoad(m, text, 2, options, values);
}
CUresult c_function(CUfunction *f, CUmodule m, const char *name) { return p_moduleFunction(f, m, name); }
CUresult c_memory(size_t *unused, size_t *total) { return p_memoryInfo(unused, total); }
CUresult c_alloc(CUdeviceptr *p, size_t n) { return p_alloc(p, n); }
CUresult c_release(CUdeviceptr p) { return p_release(p); }
CUresult c_fill(CUdeviceptr p, size_t n) { return p_fill(p, 1, n); }
CUresult c_read(void *to, CUdeviceptr from, size_t n) { return p_read(to, from, n); }
CUresult c_toDevice(CUdeviceptr to, const void *from, size_t n, CUstream s) { return p_toDevice(to, from, n, s); }
CUresult c_fromDevice(void *to, CUdeviceptr from, size_t n, CUstream s) { return p_fromDevice(to, from, n, s); }
CUresult c_stream(CUstream *s) { return p_streamCreate(s, 1); }
CUresult c_wait(CUstream s) { return p_streamWait(s); }
CUresult c_capture(CUstream s) { return p_captureBegin(s, 1); }
CUresult c_captured(CUstream s, CUgraph *g) { return p_captureEnd(s, g); }
CUresult c_graph(CUgraphExec *e, CUgraph g) { CUresult r = p_graphInstantiate(e, g, NULL, NULL, 0); p_graphDestroy(g); return r; }
CUresult c_graphLaunch(CUgraphExec e, CUstream s) { return p_graphLaunch(e, s); }
CUresult c_graphDestroy(CUgraphExec e) { return p_graphExecDestroy(e); }

CUresult c_spin(CUfunction f, CUstream s, CUdeviceptr gaps, CUdeviceptr span, unsigned cap, unsigned long long ns, unsigned long long least) {
	void *args[] = {&gaps, &span, &cap, &ns, &least};
	return p_launch(f, 1, 1, 1, 1, 1, 1, 0, s, args, NULL);
}
CUresult c_compute(CUfunction f, CUstream s, unsigned blocks, unsigned threads, unsigned iters, CUdeviceptr sink) {
	void *args[] = {&iters, &sink};
	return p_launch(f, blocks, 1, 1, threads, 1, 1, 0, s, args, NULL);
}
CUresult c_readAll(CUfunction f, CUstream s, unsigned blocks, unsigned threads, CUdeviceptr words, unsigned long long n, CUdeviceptr sink) {
	void *args[] = {&words, &n, &sink};
	return p_launch(f, blocks, 1, 1, threads, 1, 1, 0, s, args, NULL);
}
