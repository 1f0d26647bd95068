// Rows of elements for `values.hpp`, in the compiler's own vectors: AVX2's 8 lanes, else 4 (SSE, NEON).
//
// GCC takes wider vectors than the processor has apart element by element, which is ten times slower.
#pragma once

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include "elements.hpp"

namespace jumar {

#if defined(__AVX2__)
constexpr int W = 8;
#else
constexpr int W = 4;
#endif
constexpr int UNROLLED = 4;
constexpr float INFINITE = std::numeric_limits<float>::infinity();

typedef float Lanes __attribute__((vector_size(4 * W)));
typedef int32_t Whole __attribute__((vector_size(4 * W)));
typedef float Quarter __attribute__((vector_size(16)));
typedef double Doubles __attribute__((vector_size(32)));

inline Whole whole(Lanes x) { return reinterpret_cast<Whole>(x); }
inline Lanes lanes(Whole x) { return reinterpret_cast<Lanes>(x); }

inline Lanes load(const float* p) {
  Lanes x;
  std::memcpy(&x, p, sizeof x);
  return x;
}

inline Lanes least(Lanes a, Lanes b) {
#if defined(__AVX2__)
  return _mm256_min_ps(a, b);
#else
  return a < b ? a : b;
#endif
}

inline Lanes greatest(Lanes a, Lanes b) {
#if defined(__AVX2__)
  return _mm256_max_ps(a, b);
#else
  return a > b ? a : b;
#endif
}

// NaN and Inf: all bits of the exponent are set.
inline Whole odd(Lanes x) { return (whole(x) & 0x7FFFFFFF) > 0x7F7FFFFF; }

inline bool any(Whole x) {
#if defined(__AVX2__)
  return _mm256_movemask_ps(lanes(x));
#else
  typedef int64_t Pair __attribute__((vector_size(16)));
  const Pair two = reinterpret_cast<Pair>(x);
  return two[0] | two[1];
#endif
}

inline int count(Whole x) {
  int found = 0;
  for (int k = 0; k < W; k++) found -= x[k];
  return found;
}

inline Doubles widened(Lanes x) {
#if defined(__AVX2__)
  const Quarter folded = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
#else
  const Quarter folded = x;
#endif
  return __builtin_convertvector(folded, Doubles);
}

// The sign bits of W elements, whose signs are those from `bit` on.
inline Whole minus(const uint8_t* bits, int64_t bit) {
  uint16_t word;
  std::memcpy(&word, bits + (bit >> 3), 2);
  Whole place;
  for (int k = 0; k < W; k++) place[k] = 31 - k;
  return (Whole{} + static_cast<int32_t>(word >> (bit & 7)) << place) & INT32_MIN;
}

// What has been seen so far, a lane each.
struct Running {
  Lanes low = Lanes{} + INFINITE, high = Lanes{} - INFINITE;
  Doubles sums = {}, squares = {};
  Values rest = nothing();  // rows whose squares leave float32, and the counts
};

// The same of one row.
struct Row {
  Lanes low[UNROLLED], high[UNROLLED], sum[UNROLLED], squares[UNROLLED];
  int64_t num_nan = 0, num_inf = 0;

  Row() {
    for (int u = 0; u < UNROLLED; u++) {
      low[u] = Lanes{} + INFINITE;
      high[u] = Lanes{} - INFINITE;
      sum[u] = squares[u] = Lanes{};
    }
  }

  void add(int u, Lanes x) {
    low[u] = least(low[u], x);
    high[u] = greatest(high[u], x);
    sum[u] += x;
    squares[u] += x * x;
  }

  // Some of the lanes; NaN and Inf are counted and left out. What is left of `x` has zeros in their place.
  Lanes add_some(Lanes x, Whole there) {
    const Whole strange = odd(x) & there;
    const int nan = count((x != x) & there);
    num_nan += nan;
    num_inf += count(strange) - nan;
    there &= ~strange;
    low[0] = least(low[0], there ? x : Lanes{} + INFINITE);
    high[0] = greatest(high[0], there ? x : Lanes{} - INFINITE);
    x = lanes(whole(x) & there);
    sum[0] += x;
    squares[0] += x * x;
    return x;
  }

  void end(const float* p, int64_t n, Running& r) {
    for (int u = 1; u < UNROLLED; u++) {
      low[0] = least(low[0], low[u]);
      high[0] = greatest(high[0], high[u]);
      sum[0] += sum[u];
      squares[0] += squares[u];
    }
    if (any(~(squares[0] < INFINITE))) return add_careful(p, n, r.rest);
    r.low = least(r.low, low[0]);
    r.high = greatest(r.high, high[0]);
    r.sums += widened(sum[0]);
    r.squares += widened(squares[0]);
    r.rest.num_nan += num_nan;
    r.rest.num_inf += num_inf;
  }
};

// Adds the elements, with the signs from `bit` on, to `part`.
inline void add_signed(float* part, Lanes x, const uint8_t* bits, int64_t bit) {
  const Lanes sum = load(part) + lanes(whole(x) ^ minus(bits, bit));
  std::memcpy(part, &sum, sizeof sum);
}

// One row, and its signed values to `part` where IS_SIGNED, the signs being those from `bit` on.
template <bool IS_SIGNED>
inline void add_row(const float* p, int64_t n, Running& r, float* part = nullptr, const uint8_t* bits = nullptr, int64_t bit = 0) {
  Row row;
  int64_t i = 0;
  for (; i + W * UNROLLED <= n; i += W * UNROLLED) {
    Lanes x[UNROLLED];
    Whole strange = {};
    for (int u = 0; u < UNROLLED; u++) strange |= odd(x[u] = load(p + i + W * u));
    const bool is_plain = __builtin_expect(!any(strange), 1);
    for (int u = 0; u < UNROLLED; u++)
      if (is_plain)
        row.add(u, x[u]);
      else
        x[u] = row.add_some(x[u], ~Whole{});
    if constexpr (IS_SIGNED)
      for (int u = 0; u < UNROLLED; u++) add_signed(part + i + W * u, x[u], bits, bit + i + W * u);
  }
  for (; i < n; i += W) {
    const int64_t num = n - i < W ? n - i : W;
    Lanes x = {};
    Whole there;
    std::memcpy(&x, p + i, 4 * num);
    for (int k = 0; k < W; k++) there[k] = -(k < num);
    x = row.add_some(x, there);
    if constexpr (IS_SIGNED) {
      const Lanes turned = lanes(whole(x) ^ minus(bits, bit + i));
      for (int k = 0; k < num; k++) part[i + k] += turned[k];
    }
  }
  row.end(p, n, r);
}

inline Values finished(const Running& r) {
  Values v = r.rest;
  for (int k = 0; k < W; k++) {
    v.minimum = r.low[k] < v.minimum ? r.low[k] : v.minimum;
    v.maximum = r.high[k] > v.maximum ? r.high[k] : v.maximum;
  }
  for (int k = 0; k < 4; k++) {
    v.sum += r.sums[k];
    v.squares += r.squares[k];
  }
  return v;
}

}  // namespace jumar
