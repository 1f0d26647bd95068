// Vectors of VL floats through the compiler's vector extension: AVX-512, AVX2 and NEON from one source.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>
#if defined(__AVX512F__)
#include <immintrin.h>
#endif

#define INLINE inline __attribute__((always_inline))

constexpr int VL = JUMAR_VL;
typedef float V __attribute__((vector_size(VL * 4), aligned(4), may_alias));
typedef int32_t VI __attribute__((vector_size(VL * 4), aligned(4), may_alias));

static INLINE V load(const float* p) { return *reinterpret_cast<const V*>(p); }
static INLINE void store(float* p, V v) { *reinterpret_cast<V*>(p) = v; }
static INLINE V splat(float s) { return s - (V){}; }

// A value that is read from memory once: else the compiler reads it again for each product that it is in.
static INLINE V held(V x) {
#if defined(__AVX512F__)
  asm("" : "+v"(x));
#elif (defined(__AVX__) && JUMAR_VL <= 8) || (defined(__SSE2__) && JUMAR_VL == 4)
  asm("" : "+x"(x));
#elif defined(__aarch64__) && JUMAR_VL == 4
  asm("" : "+w"(x));
#endif
  return x;
}

// A NaN in x stays a NaN, as ReLU of PyTorch has it.
static INLINE V clamp(V x, V low, V high) {
#if defined(__AVX512F__) && JUMAR_VL == 16
  return (V)_mm512_min_ps((__m512)high, _mm512_max_ps((__m512)low, (__m512)x));
#else
  x = x < low ? low : x;
  return x > high ? high : x;
#endif
}

// exp: 2^n times a polynomial of degree 6 on [-ln2/2, ln2/2] (Taylor's coefficients, error below 2e-7 relative).
static INLINE V exponential(V x) {
  x = clamp(x, splat(-87.0f), splat(88.0f));
  V t = x * 1.44269504088896341f + splat(12582912.0f);  // round to nearest by the magic number 1.5 * 2^23
  VI n = (VI)t - (VI)splat(12582912.0f);
  V k = t - splat(12582912.0f);
  V r = x - k * 0.693145751953125f - k * 1.42860682030941723e-6f;
  V p = splat(1.0f / 720.0f);
  p = p * r + 1.0f / 120.0f;
  p = p * r + 1.0f / 24.0f;
  p = p * r + 1.0f / 6.0f;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  return (V)((VI)p + (n << 23));
}

enum Post { POST_NONE, POST_SILU, POST_SIGMOID, POST_HARDSWISH, POST_HARDSIGMOID };

static INLINE V post_one(int kind, V x) {
  V sixth = clamp(x + 3.0f, splat(0.0f), splat(6.0f)) / 6.0f;
  switch (kind) {
    case POST_SILU: return x / (1.0f + exponential(-x));
    case POST_SIGMOID: return 1.0f / (1.0f + exponential(-x));
    case POST_HARDSWISH: return x * sixth;
    case POST_HARDSIGMOID: return sixth;
    default: return x;
  }
}

// Of `count` vectors in memory, in place. Not inline: its constants would push sums out of the registers.
static __attribute__((noinline)) void post_all(int kind, float* at, int64_t count) {
  for (int64_t i = 0; i < count; i++) store(at + i * VL, post_one(kind, load(at + i * VL)));
}
