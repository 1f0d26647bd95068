// The one inner kernel: MR pixels times NR vectors of output channels, summed over a list of input offsets.
//
//   out[r][j] = clamp(bias[j] + sum_k weight[k][j] * in[offset[k] + r * PS] + other[r][j])
//
// PS is the distance of neighbouring pixels in floats: VL in blocked layout, 1 in planes. The list of offsets is what
// makes a convolution of any kernel size, dilation, and choice of input channels the same loop.
#pragma once
#include "vector.hpp"

struct Out {
  float* out;
  const int32_t* out_at;   // of each pixel, in floats
  int64_t out_block;       // distance of channel blocks
  const float* other;      // added before the clamp; null: none
  const int32_t* other_at;
  int64_t other_block;
  const float* bias;
  float low, high;
  int post;
};

typedef void (*Micro)(const float*, const int32_t*, int64_t, const float*, const Out&);

template <int MR, int NR, int PS>
static void micro(const float* in, const int32_t* offset, int64_t depth, const float* weight, const Out& o) {
  V sum[MR][NR];
#pragma GCC unroll 4
  for (int j = 0; j < NR; j++) {
    V bias = load(o.bias + j * VL);
#pragma GCC unroll 32
    for (int r = 0; r < MR; r++) sum[r][j] = bias;
  }
  for (int64_t k = 0; k < depth; k++) {
    const float* p = in + offset[k];
    V w[NR];
#pragma GCC unroll 4
    for (int j = 0; j < NR; j++) w[j] = load(weight + j * VL);
    weight += NR * VL;
#pragma GCC unroll 32
    for (int r = 0; r < MR; r++) {
      float x = p[r * PS];
#pragma GCC unroll 4
      for (int j = 0; j < NR; j++) sum[r][j] += w[j] * x;
    }
  }
  const V low = splat(o.low), high = splat(o.high);
#pragma GCC unroll 32
  for (int r = 0; r < MR; r++) {
#pragma GCC unroll 4
    for (int j = 0; j < NR; j++) {
      V x = sum[r][j];
      if (o.other) x += load(o.other + o.other_at[r] + j * o.other_block);
      store(o.out + o.out_at[r] + j * o.out_block, clamp(x, low, high));
    }
  }
  if (__builtin_expect(o.post != POST_NONE, 0))
    for (int r = 0; r < MR; r++)
      for (int j = 0; j < NR; j++) {
        float* at = o.out + o.out_at[r] + j * o.out_block;
        store(at, post_one(o.post, load(at)));
      }
}

// Rows a tile may have for each width, so that sums, weights and one input fit in the registers.
constexpr int REGISTERS = (VL == 16 || JUMAR_NEON) ? 32 : 16;
constexpr int rows_of(int nr) {
  int rows = (REGISTERS - nr - 1) / nr;
  return rows > 14 ? 14 : rows;
}
constexpr int MAX_ROWS = 14, MAX_WIDTH = 4;

template <int NR, int PS>
static void fill_rows(Micro* row) {
  row[1] = micro<1, NR, PS>; row[2] = micro<2, NR, PS>; row[3] = micro<3, NR, PS>;
  if constexpr (rows_of(NR) >= 4) row[4] = micro<4, NR, PS>;
  if constexpr (rows_of(NR) >= 5) row[5] = micro<5, NR, PS>;
  if constexpr (rows_of(NR) >= 6) row[6] = micro<6, NR, PS>;
  if constexpr (rows_of(NR) >= 7) row[7] = micro<7, NR, PS>;
  if constexpr (rows_of(NR) >= 8) row[8] = micro<8, NR, PS>;
  if constexpr (rows_of(NR) >= 9) row[9] = micro<9, NR, PS>;
  if constexpr (rows_of(NR) >= 10) row[10] = micro<10, NR, PS>;
  if constexpr (rows_of(NR) >= 11) row[11] = micro<11, NR, PS>;
  if constexpr (rows_of(NR) >= 12) row[12] = micro<12, NR, PS>;
  if constexpr (rows_of(NR) >= 13) row[13] = micro<13, NR, PS>;
  if constexpr (rows_of(NR) >= 14) row[14] = micro<14, NR, PS>;
}

struct Micros {
  Micro blocked[MAX_WIDTH + 1][MAX_ROWS + 1] = {};
  Micro planes[MAX_WIDTH + 1][MAX_ROWS + 1] = {};
  Micros() {
    fill_rows<1, VL>(blocked[1]); fill_rows<2, VL>(blocked[2]); fill_rows<3, VL>(blocked[3]);
    fill_rows<1, 1>(planes[1]); fill_rows<2, 1>(planes[2]); fill_rows<3, 1>(planes[3]);
    if constexpr (rows_of(4) >= 3) fill_rows<4, VL>(blocked[4]);
  }
};
static const Micros micros;
