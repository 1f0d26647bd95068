// What is known of elements that were looked at, and of the signs of a sketch.
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

// In double, one by one; NaN and Inf are counted, and left out.
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

}  // namespace jumar
