// The CUDA driver library as the probe calls it: loaded when it is opened, so
// that nothing is linked.
#include <stddef.h>

typedef int CUresult;
typedef int CUdevice;
typedef void *CUcontext, *CUmodule, *CUfunction, *CUstream, *CUgraph, *CUgraphExec;
typedef unsigned long long CUdeviceptr;
typedef struct { unsigned char bytes[16]; } CUuuid;

// opened loads the library and fills the table; it returns what is wrong, or NULL.
const char *opened(const char *library, char **path);
CUresult c_init(void);
CUresult c_version(int *v);
const char *c_errorName(CUresult r);
const char *c_errorText(CUresult r);
CUresult c_device(CUdevice *d, int i);
CUresult c_name(char *s, int n, CUdevice d);
CUresult c_uuid(CUuuid *u, CUdevice d);
CUresult c_attribute(int *v, int a, CUdevice d);
CUresult c_total(size_t *n, CUdevice d);
CUresult c_context(CUcontext *c, CUdevice d);
CUresult c_load(CUmodule *m, const void *text, char *log, size_t n);
CUresult c_function(CUfunction *f, CUmodule m, const char *name);
CUresult c_memory(size_t *unused, size_t *total);
CUresult c_alloc(CUdeviceptr *p, size_t n);
CUresult c_release(CUdeviceptr p);
CUresult c_fill(CUdeviceptr p, size_t n);
CUresult c_read(void *to, CUdeviceptr from, size_t n);
CUresult c_toDevice(CUdeviceptr to, const void *from, size_t n, CUstream s);
CUresult c_fromDevice(void *to, CUdeviceptr from, size_t n, CUstream s);
CUresult c_stream(CUstream *s);
CUresult c_wait(CUstream s);
CUresult c_capture(CUstream s);
CUresult c_captured(CUstream s, CUgraph *g);
CUresult c_graph(CUgraphExec *e, CUgraph g);
CUresult c_graphLaunch(CUgraphExec e, CUstream s);
CUresult c_graphDestroy(CUgraphExec e);
CUresult c_spin(CUfunction f, CUstream s, CUdeviceptr gaps, CUdeviceptr span, unsigned cap, unsigned long long ns, unsigned long long least);
CUresult c_compute(CUfunction f, CUstream s, unsigned blocks, unsigned threads, unsigned iters, CUdeviceptr sink);
CUresult c_readAll(CUfunction f, CUstream s, unsigned blocks, unsigned threads, CUdeviceptr words, unsigned long long n, CUdeviceptr sink);
