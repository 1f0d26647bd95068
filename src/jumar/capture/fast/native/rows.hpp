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
constexpr int64_t AHEAD = 2048;
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
  bool was_odd = false;     // NaN or Inf in the row before: there will be more
};

// The same of one row, or of every other vector of it.
struct Row {
  Lanes low = Lanes{} + INFINITE, high = Lanes{} - INFINITE, sum = {}, squares = {};

  void add(Lanes x) {
    low = least(low, x);
    high = greatest(high, x);
    sum += x;
    squares += x * x;
  }

  // Some of the lanes.
  void add(Lanes x, Whole there) {
    low = least(low, there ? x : Lanes{} + INFINITE);
    high = greatest(high, there ? x : Lanes{} - INFINITE);
    x = lanes(whole(x) & there);
    sum += x;
    squares += x * x;
  }

  void join(const Row& other) {
    low = least(low, other.low);
    high = greatest(high, other.high);
    sum += other.sum;
    squares += other.squares;
  }

  // False where a NaN or an Inf went in, or squares that leave float32.
  bool is_finite() const { return !any(~(squares < INFINITE)); }

  void end(Running& r) const {
    r.low = least(r.low, low);
    r.high = greatest(r.high, high);
    r.sums += widened(sum);
    r.squares += widened(squares);
  }
};

// The last elements of a row, fewer than W, and where there are some.
inline Lanes load_some(const float* p, int64_t num, Whole& there) {
  Lanes x = {};
  std::memcpy(&x, p, 4 * num);
  for (int k = 0; k < W; k++) there[k] = -(k < num);
  return x;
}

inline Row plain_row(const float* p, int64_t n) {
  Row even, uneven;  // two, for one addition need not wait for the one before
  int64_t i = 0;
  for (; i + 2 * W <= n; i += 2 * W) {
    __builtin_prefetch(p + i + AHEAD);
    even.add(load(p + i));
    uneven.add(load(p + i + W));
  }
  for (; i < n; i += W) {
    Whole there = ~Whole{};
    const Lanes x = n - i < W ? load_some(p + i, n - i, there) : load(p + i);
    even.add(x, there);
  }
  even.join(uneven);
  return even;
}

// NaN and Inf are counted and left out. Tells whether there were any.
inline bool odd_row(const float* p, int64_t n, Running& r) {
  Row row;
  Whole nan = {}, strange = {};
  for (int64_t i = 0; i < n; i += W) {
    Whole there = ~Whole{};
    const Lanes x = n - i < W ? load_some(p + i, n - i, there) : load(p + i);
    nan -= x != x;
    strange -= odd(x);
    row.add(x, there & ~odd(x));
  }
  if (!row.is_finite()) {
    add_careful(p, n, r.rest);
  } else {
    row.end(r);
    for (int k = 0; k < W; k++) {
      r.rest.num_nan += nan[k];
      r.rest.num_inf += strange[k] - nan[k];
    }
  }
  return any(-strange);
}

// Adds the elements, NaN and Inf left out, with the signs from `bit` on, to `part`.
template <bool IS_ODD>
inline void add_signed(const float* p, int64_t n, float* part, const uint8_t* bits, int64_t bit) {
  auto turned = [&](Lanes x, int64_t i) {
    if constexpr (IS_ODD) x = lanes(whole(x) & ~odd(x));
    return lanes(whole(x) ^ minus(bits, bit + i));
  };
  int64_t i = 0;
  for (; i + W <= n; i += W) {
    const Lanes sum = load(part + i) + turned(load(p + i), i);
    std::memcpy(part + i, &sum, sizeof sum);
  }
  if (i < n) {
    Whole there;
    const Lanes x = turned(load_some(p + i, n - i, there), i);
    for (int k = 0; k < n - i; k++) part[i + k] += x[k];
  }
}

// One row, and its signed values to `part` where IS_SIGNED, the signs being those from `bit` on.
template <bool IS_SIGNED>
inline void add_row(const float* p, int64_t n, Running& r, float* part = nullptr, const uint8_t* bits = nullptr, int64_t bit = 0) {
  bool is_plain = false;
  if (!r.was_odd) {
    const Row row = plain_row(p, n);
    if ((is_plain = __builtin_expect(row.is_finite(), 1))) row.end(r);
  }
  if (!is_plain) r.was_odd = odd_row(p, n, r);
  if constexpr (IS_SIGNED) r.was_odd ? add_signed<true>(p, n, part, bits, bit) : add_signed<false>(p, n, part, bits, bit);
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
