// Statistics and sketch of float32 elements in one pass over the memory.
//
// The elements are read row by row of 2,039, as the lanes of a sketch have them: a row that the statistics have read
// is in the first-level cache when its signed values are added. Within a row, and for the signed values within a block
// of 64 rows, sums are float32, the rest is double, as `jumar.recording.sketch` has it.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#if defined(__AVX512F__) && defined(__AVX512DQ__)
#define JUMAR_WIDE 1
#include <immintrin.h>
#endif

namespace jumar {

constexpr int64_t LANES = 2039, BLOCK = 64 * LANES, TILE = 128 * LANES, NUM_SUMS = 2048, BUCKETS = 64;

struct Values {
  double minimum, maximum, sum, squares;
  int64_t num_nan, num_inf;
};

// What `jumar.recording.sketch` knows: the signs, and by bucket the lanes of each group.
struct Signs {
  const float* tile;
  const int64_t* fold;
  const uint8_t* bits;  // the tile again, a bit for each -1, with some bytes to spare
};

inline uint32_t mix(uint64_t x) {
  x &= 0xFFFFFFFF;
  x ^= x >> 16;
  x = (x * 0x21F0AAAD) & 0xFFFFFFFF;
  x ^= x >> 15;
  x = (x * 0x735A2D97) & 0xFFFFFFFF;
  return static_cast<uint32_t>(x ^ (x >> 15));
}

typedef float Lanes __attribute__((vector_size(64), aligned(4), may_alias));
constexpr int W = 16, UNROLLED = 4;

inline float sum_of(Lanes x) {
  float found = 0;
  for (int k = 0; k < W; k++) found += x[k];
  return found;
}

// A row that is all finite, in float32: 32 additions a lane. False where NaN or Inf show, or where squares leave
// float32's range.
inline bool add_quickly(const float* p, int64_t n, Values& v) {
  Lanes low[UNROLLED], high[UNROLLED], sum[UNROLLED], squares[UNROLLED];
  for (int u = 0; u < UNROLLED; u++) {
    low[u] = Lanes{} + std::numeric_limits<float>::infinity();
    high[u] = -low[u];
    sum[u] = squares[u] = Lanes{};
  }
  int64_t i = 0;
  for (; i + W * UNROLLED <= n; i += W * UNROLLED)
    for (int u = 0; u < UNROLLED; u++) {
      const Lanes x = *reinterpret_cast<const Lanes*>(p + i + W * u);
      low[u] = x < low[u] ? x : low[u];
      high[u] = x > high[u] ? x : high[u];
      sum[u] += x;
      squares[u] += x * x;
    }
  for (; i + W <= n; i += W) {
    const Lanes x = *reinterpret_cast<const Lanes*>(p + i);
    low[0] = x < low[0] ? x : low[0];
    high[0] = x > high[0] ? x : high[0];
    sum[0] += x;
    squares[0] += x * x;
  }
  for (int u = 1; u < UNROLLED; u++) {
    low[0] = low[u] < low[0] ? low[u] : low[0];
    high[0] = high[u] > high[0] ? high[u] : high[0];
    sum[0] += sum[u];
    squares[0] += squares[u];
  }
  float least = low[0][0], greatest = high[0][0], total = sum_of(sum[0]), square = sum_of(squares[0]);
  for (int k = 1; k < W; k++) {
    least = low[0][k] < least ? low[0][k] : least;
    greatest = high[0][k] > greatest ? high[0][k] : greatest;
  }
  for (; i < n; i++) {
    least = p[i] < least ? p[i] : least;
    greatest = p[i] > greatest ? p[i] : greatest;
    total += p[i];
    square += p[i] * p[i];
  }
  if (!(square < std::numeric_limits<float>::infinity()) || (square < 1e-25f && (least != 0 || greatest != 0)))
    return false;
  v.minimum = least < v.minimum ? least : v.minimum;
  v.maximum = greatest > v.maximum ? greatest : v.maximum;
  v.sum += total;
  v.squares += square;
  return true;
}

// The same where NaN or Inf are among the elements: they are counted, and left out.
inline void add_careful(const float* p, int64_t n, Values& v) {
  for (int64_t i = 0; i < n; i++) {
    const float x = p[i];
    uint32_t bits;
    std::memcpy(&bits, &x, 4);
    bits &= 0x7FFFFFFF;
    if (bits >= 0x7F800000) {
      (bits > 0x7F800000 ? v.num_nan : v.num_inf)++;
      continue;
    }
    const double d = x;
    v.minimum = d < v.minimum ? d : v.minimum;
    v.maximum = d > v.maximum ? d : v.maximum;
    v.sum += d;
    v.squares += d * d;
  }
}

inline Values nothing() {
  return {std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity(), 0, 0, 0, 0};
}

inline void add_one_row(const float* p, int64_t n, Values& v) {
  if (!add_quickly(p, n, v)) add_careful(p, n, v);
}

inline void add_signed(float* part, const float* p, const float* ones, int64_t n) {
  for (int64_t i = 0; i < n; i++) part[i] += p[i] * ones[i];
}

inline void add_signed_careful(float* part, const float* p, const float* ones, int64_t n) {
  for (int64_t i = 0; i < n; i++) part[i] += std::isfinite(p[i]) ? p[i] * ones[i] : 0.0f;
}

#ifdef JUMAR_WIDE

// What has been seen so far, a lane each. NaN and Inf are masked as they come; prefetching by hand doubles what is
// read from the third-level cache (measured).
struct Running {
  __m512 low = _mm512_set1_ps(std::numeric_limits<float>::infinity()), high = -low;
  __m512d sums[2] = {}, squares[2] = {};
  Values rest = nothing();  // rows whose squares leave float32, and the counts
};

constexpr int64_t AHEAD = 2048;

inline void widen(__m512 x, __m512d* to) {
  to[0] += _mm512_cvtps_pd(_mm512_castps512_ps256(x));
  to[1] += _mm512_cvtps_pd(_mm512_extractf32x8_ps(x, 1));
}

// One row, and its signed values to `part` where IS_SIGNED, the signs being those from `bit` on.
template <bool IS_SIGNED>
inline void add_row(const float* p, int64_t n, Running& r, float* part = nullptr, const uint8_t* bits = nullptr, int64_t bit = 0) {
  const __m512 infinite = _mm512_set1_ps(std::numeric_limits<float>::infinity());
  const __m512i minus = _mm512_set1_epi32(INT32_MIN);
  __m512 low[2] = {infinite, infinite}, high[2] = {-infinite, -infinite}, sum[2] = {}, squares[2] = {};
  const int shift = bit & 7;
  const uint8_t* signs = bits + (bit >> 3);
  int64_t num_nan = 0, num_inf = 0;
  auto add = [&](int64_t i, __mmask16 there, int u) {
    __m512 x = _mm512_maskz_loadu_ps(there, p + i);
    const __mmask16 odd = _mm512_fpclass_ps_mask(x, 0x99);
    const __mmask16 finite = there & ~odd;
    if (__builtin_expect(odd, 0)) {
      const int nan = __builtin_popcount(_mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q));
      num_nan += nan;
      num_inf += __builtin_popcount(odd) - nan;
      x = _mm512_maskz_mov_ps(finite, x);
    }
    low[u] = _mm512_mask_min_ps(low[u], finite, low[u], x);
    high[u] = _mm512_mask_max_ps(high[u], finite, high[u], x);
    sum[u] += x;
    squares[u] = _mm512_fmadd_ps(x, x, squares[u]);
    if constexpr (IS_SIGNED) {
      uint32_t word;
      std::memcpy(&word, signs + (i >> 3), 4);
      const __m512 turned = _mm512_castsi512_ps(_mm512_mask_xor_epi32(
          _mm512_castps_si512(x), static_cast<__mmask16>(word >> shift), _mm512_castps_si512(x), minus));
      _mm512_mask_storeu_ps(part + i, there, _mm512_maskz_loadu_ps(there, part + i) + turned);
    }
  };
  int64_t i = 0;
  for (; i + 32 <= n; i += 32) {
    _mm_prefetch(reinterpret_cast<const char*>(p + i + AHEAD), _MM_HINT_T0);
    _mm_prefetch(reinterpret_cast<const char*>(p + i + AHEAD + 16), _MM_HINT_T0);
    add(i, 0xFFFF, 0);
    add(i + 16, 0xFFFF, 1);
  }
  for (; i < n; i += 16) add(i, n - i >= 16 ? 0xFFFF : (1u << (n - i)) - 1, 0);
  const __m512 square = squares[0] + squares[1];
  if (__builtin_expect(_mm512_cmp_ps_mask(square, infinite, _CMP_NLT_UQ), 0)) {
    add_careful(p, n, r.rest);
    return;
  }
  r.low = _mm512_min_ps(r.low, _mm512_min_ps(low[0], low[1]));
  r.high = _mm512_max_ps(r.high, _mm512_max_ps(high[0], high[1]));
  widen(sum[0] + sum[1], r.sums);
  widen(square, r.squares);
  r.rest.num_nan += num_nan;
  r.rest.num_inf += num_inf;
}

inline Values finished(const Running& r) {
  Values v = r.rest;
  const double low = _mm512_reduce_min_ps(r.low), high = _mm512_reduce_max_ps(r.high);
  v.minimum = low < v.minimum ? low : v.minimum;
  v.maximum = high > v.maximum ? high : v.maximum;
  v.sum += _mm512_reduce_add_pd(r.sums[0] + r.sums[1]);
  v.squares += _mm512_reduce_add_pd(r.squares[0] + r.squares[1]);
  return v;
}

#else

struct Running {
  Values values = nothing();
};

template <bool IS_SIGNED>
inline void add_row(const float* p, int64_t n, Running& r, float* part = nullptr, const float* ones = nullptr) {
  const int64_t odd = r.values.num_nan + r.values.num_inf;
  add_one_row(p, n, r.values);
  if (IS_SIGNED) (odd == r.values.num_nan + r.values.num_inf ? add_signed : add_signed_careful)(part, p, ones, n);
}

inline Values finished(const Running& r) { return r.values; }

#endif

// Below this sum of squares elements may have been lost to float32's underflow.
inline Values checked(const float* p, int64_t n, Values v) {
  if (!(v.squares < 1e-20) || (v.minimum == 0 && v.maximum == 0)) return v;
  v = nothing();
  add_careful(p, n, v);
  return v;
}

inline Values statistics(const float* p, int64_t n) {
  Running r;
  for (int64_t i = 0; i < n; i += NUM_SUMS) add_row<false>(p + i, n - i < NUM_SUMS ? n - i : NUM_SUMS, r);
  return checked(p, n, finished(r));
}

// The sketch goes to `out`, 64 numbers; false when a sum leaves float32: somebody slower has to look.
inline bool statistics_and_sketch(const float* p, int64_t n, const Signs& signs, Values& v, float* out) {
  alignas(64) double sums[NUM_SUMS] = {};
  alignas(64) float part[NUM_SUMS];
  Running r;
  for (int64_t number = 0, begin = 0; begin < n; number++, begin += BLOCK) {
    int64_t start = number * BLOCK;
    double turn = 1;
    if (number >= TILE / BLOCK) {
      start = mix(static_cast<uint64_t>(number) + 0x20000000) % (TILE - BLOCK);
      turn = 1.0 - 2.0 * ((mix(static_cast<uint64_t>(number) + 0x40000000) >> 13) & 1);
    }
    const int64_t size = n - begin < BLOCK ? n - begin : BLOCK;
    const int64_t width = size < LANES ? size : LANES;
    std::memset(part, 0, sizeof(float) * width);
    for (int64_t place = 0; place < size; place += LANES) {
      const int64_t num = size - place < LANES ? size - place : LANES;
#ifdef JUMAR_WIDE
      add_row<true>(p + begin + place, num, r, part, signs.bits, start + place);
#else
      add_row<true>(p + begin + place, num, r, part, signs.tile + start + place);
#endif
    }
    for (int64_t i = 0; i < width; i++) sums[i] += turn * part[i];
  }
  v = checked(p, n, finished(r));
  double found[BUCKETS] = {};
  for (int64_t i = 0; i < NUM_SUMS; i++) found[i % BUCKETS] += sums[signs.fold[i]];
  for (int64_t i = 0; i < BUCKETS; i++) {
    if (!(std::fabs(found[i]) <= std::numeric_limits<float>::max())) return false;
    out[i] = static_cast<float>(found[i]);
  }
  return true;
}

}  // namespace jumar
