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

inline void add_row(const float* p, int64_t n, Values& v) {
  if (!add_quickly(p, n, v)) add_careful(p, n, v);
}

inline void add_signed(float* part, const float* p, const float* ones, int64_t n) {
  for (int64_t i = 0; i < n; i++) part[i] += p[i] * ones[i];
}

inline void add_signed_careful(float* part, const float* p, const float* ones, int64_t n) {
  for (int64_t i = 0; i < n; i++) part[i] += std::isfinite(p[i]) ? p[i] * ones[i] : 0.0f;
}

inline Values statistics(const float* p, int64_t n) {
  Values v = nothing();
  for (int64_t i = 0; i < n; i += NUM_SUMS) add_row(p + i, n - i < NUM_SUMS ? n - i : NUM_SUMS, v);
  return v;
}

// The sketch goes to `out`, 64 numbers; false when a sum leaves float32: somebody slower has to look.
inline bool statistics_and_sketch(const float* p, int64_t n, const Signs& signs, Values& v, float* out) {
  alignas(64) double sums[NUM_SUMS] = {};
  alignas(64) float part[NUM_SUMS];
  v = nothing();
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
      const int64_t bad = v.num_nan + v.num_inf;
      add_row(p + begin + place, num, v);
      const bool finite = bad == v.num_nan + v.num_inf;
      (finite ? add_signed : add_signed_careful)(part, p + begin + place, signs.tile + start + place, num);
    }
    for (int64_t i = 0; i < width; i++) sums[i] += turn * part[i];
  }
  double found[BUCKETS] = {};
  for (int64_t i = 0; i < NUM_SUMS; i++) found[i % BUCKETS] += sums[signs.fold[i]];
  for (int64_t i = 0; i < BUCKETS; i++) {
    if (!(std::fabs(found[i]) <= std::numeric_limits<float>::max())) return false;
    out[i] = static_cast<float>(found[i]);
  }
  return true;
}

}  // namespace jumar
