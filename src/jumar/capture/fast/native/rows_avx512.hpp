// Rows of elements for `values.hpp`, with AVX-512: 16 lanes, masks in registers of their own.
#pragma once

#include <immintrin.h>

#include "elements.hpp"

namespace jumar {

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

}  // namespace jumar
