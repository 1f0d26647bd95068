// Statistics and sketch of float32 elements in one pass over the memory.
//
// The elements are read row by row of 2,039, as the lanes of a sketch have them: a row that the statistics have read
// is in the first-level cache when its signed values are added. Within a row, and for the signed values within a block
// of 64 rows, sums are float32, the rest is double, as `jumar.recording.sketch` has it.
#pragma once

#if defined(__AVX512F__) && defined(__AVX512DQ__)
#include "rows_avx512.hpp"
#else
#include "rows.hpp"
#endif

namespace jumar {

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
      add_row<true>(p + begin + place, num, r, part, signs.bits, start + place);
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
