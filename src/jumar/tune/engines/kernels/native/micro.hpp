// The one inner kernel: MR pixels times NR vectors of output channels, summed over a list of input offsets.
//
//   out[r][j] = clamp(bias[j] + sum_k weight[k][j] * in[offset[k] + r * PS] + other[r][j])
//
// `offset` holds two numbers a term: where it is, and a line that will be needed some terms later, to be fetched.
// PS is the distance of neighbouring pixels in floats: VL in blocked layout, 1 in planes. The list of offsets is what
// makes a convolution of any kernel size, dilation, and choice of input channels the same loop.
#pragma once
#include "vector.hpp"

constexpr int64_t STRETCH = 128;  // terms

struct Out {
  float* out;
  const int32_t* out_at;   // of each pixel, in floats
  int64_t out_block;       // distance of channel blocks
  const float* other;      // added before the clamp; null: none
  const int32_t* other_at;
  int64_t other_block;
  const float* bias;       // null: a later part of a long sum, which goes on from what `out` holds
  int64_t ahead;           // where the weights lie that are needed next, from those of now, in floats
  bool finish;             // whether this is the last part: the other addend, clamp and activation follow
  float low, high;
  int post;
};

typedef void (*Micro)(const float*, const int32_t*, int64_t, const float*, const Out&);

template <int MR, int NR, int PS>
static void micro(const float* in, const int32_t* offset, int64_t depth, const float* weight, const Out& o) {
  const int64_t ahead = o.ahead;
  V sum[MR][NR];
  float before[MR * NR * VL];
#pragma GCC unroll 4
  for (int j = 0; j < NR; j++) {
    V bias = o.bias ? load(o.bias + j * VL) : (V){};
#pragma GCC unroll 32
    for (int r = 0; r < MR; r++) sum[r][j] = bias;
  }
  // Long sums in stretches, each from zero: the rounding error grows with the stretch, not with the whole. Parts are
  // whole stretches and are added in the same order, so that cutting a sum into parts changes no bit.
  for (int64_t begin = 0; begin < depth; begin += STRETCH) {
    const int64_t end = depth - begin < 2 * STRETCH ? depth : begin + STRETCH;
    const bool goes_on = begin > 0 || !o.bias;
    if (goes_on)
#pragma GCC unroll 32
      for (int r = 0; r < MR; r++)
#pragma GCC unroll 4
        for (int j = 0; j < NR; j++) {
          store(before + (r * NR + j) * VL, begin > 0 ? sum[r][j] : load(o.out + o.out_at[r] + j * o.out_block));
          sum[r][j] = (V){};
        }
    for (int64_t k = begin; k < end; k++) {
      const float* p = in + offset[2 * k];
      V w[NR];
#pragma GCC unroll 4
      for (int j = 0; j < NR; j++) {
        w[j] = load(weight + j * VL);
        if (j % 2 == 0) __builtin_prefetch(weight + ahead + j * VL, 0, 2);  // lines come in pairs
      }
      weight += NR * VL;
      if constexpr (PS == VL) __builtin_prefetch(in + offset[2 * k + 1], 0, 3);
#pragma GCC unroll 32
      for (int r = 0; r < MR; r++) {
        float x = p[r * PS];
#pragma GCC unroll 4
        for (int j = 0; j < NR; j++) sum[r][j] += w[j] * x;
      }
    }
    if (goes_on)
#pragma GCC unroll 32
      for (int r = 0; r < MR; r++)
#pragma GCC unroll 4
        for (int j = 0; j < NR; j++) sum[r][j] += load(before + (r * NR + j) * VL);
    if (end == depth) break;
  }
  if (!o.finish) {
#pragma GCC unroll 32
    for (int r = 0; r < MR; r++)
#pragma GCC unroll 4
      for (int j = 0; j < NR; j++) store(o.out + o.out_at[r] + j * o.out_block, sum[r][j]);
    return;
  }
  if (o.other)
#pragma GCC unroll 32
    for (int r = 0; r < MR; r++)
#pragma GCC unroll 4
      for (int j = 0; j < NR; j++) sum[r][j] += load(o.other + o.other_at[r] + j * o.other_block);
  const V low = splat(o.low), high = splat(o.high);
  float* const out = o.out;  // locals: what is stored might be `o` for all the compiler knows
  const int32_t* const out_at = o.out_at;
  const int64_t out_block = o.out_block;
#pragma GCC unroll 32
  for (int r = 0; r < MR; r++) {
    float* at = out + out_at[r];
#pragma GCC unroll 4
    for (int j = 0; j < NR; j++) store(at + j * out_block, clamp(sum[r][j], low, high));
  }
  if (__builtin_expect(o.post != POST_NONE, 0))
    for (int r = 0; r < MR; r++)
      for (int j = 0; j < NR; j++) post_all(o.post, out + out_at[r] + j * out_block, 1);
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
