// The probe's kernels. build.sh makes kernels.ptx of them, which the driver
// compiles for the GPU that is there. They use nothing that PTX 6.0 and Volta
// do not have.
typedef unsigned long long u64;

static __device__ __forceinline__ u64 now() {
  u64 t;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
  return t;
}

// spin keeps one thread busy for ns nanoseconds and records when it was off the
// GPU: gaps[2k] and gaps[2k+1] are where the k-th gap of more than least begins
// and ends. span holds the first and the last time, and the number of gaps,
// which may exceed cap.
extern "C" __global__ void spin(u64 *gaps, u64 *span, unsigned cap, u64 ns, u64 least) {
  u64 t0 = now(), last = t0, t;
  unsigned n = 0;
  do {
    t = now();
    if (t - last > least) {
      if (n < cap) {
        gaps[2 * n] = last;
        gaps[2 * n + 1] = t;
      }
      n++;
    }
    last = t;
  } while (t - t0 < ns);
  span[0] = t0;
  span[1] = t;
  span[2] = n;
}

// compute keeps every thread busy with arithmetic and touches no memory.
extern "C" __global__ void compute(unsigned iters, float *sink) {
  float a = threadIdx.x, b = blockIdx.x, c = 1, d = 2;
  for (unsigned i = 0; i < iters; i++) {
    asm volatile("fma.rn.f32 %0, %0, %0, %0;" : "+f"(a));
    asm volatile("fma.rn.f32 %0, %0, %0, %0;" : "+f"(b));
    asm volatile("fma.rn.f32 %0, %0, %0, %0;" : "+f"(c));
    asm volatile("fma.rn.f32 %0, %0, %0, %0;" : "+f"(d));
  }
  if (a + b + c + d == 1.5f) *sink = a;
}

// stream reads n 16-byte words of device memory.
extern "C" __global__ void stream(const uint4 *words, u64 n, unsigned *sink) {
  unsigned x = 0;
  for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x; i < n; i += gridDim.x * (u64)blockDim.x) {
    uint4 w = words[i];
    x ^= w.x ^ w.y ^ w.z ^ w.w;
  }
  if (x == 0x9e3779b9) *sink = x;
}
