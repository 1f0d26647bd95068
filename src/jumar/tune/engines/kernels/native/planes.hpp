// Operators between two ordinary tensors, without blocked copies of them: depthwise convolutions of contiguous planes,
// and GELU.
#pragma once
#include "op.hpp"

// The first `count` of VL floats; the rest is zero.
static INLINE V load_some(const float* p, int64_t count) {
  if (count >= VL) return load(p);
  float lanes[VL] = {};
  memcpy(lanes, p, count * 4);
  return load(lanes);
}

static INLINE void store_some(float* p, int64_t count, V v) {
  if (count >= VL) store(p, v);
  else memcpy(p, &v, count * 4);
}

constexpr int MAX_TAPS = 64;

// One plane with zeros around it; columns x, x + sx, ... of each phase x follow each other, `plane` floats a phase.
static void padded_plane(const Op& op, const float* in, const int64_t* stride, float* out) {
  for (int64_t phase = 0; phase < op.sx; phase++)
    for (int64_t y = 0; y < op.in_blocks; y++) {
      float* row = out + phase * op.plane + y * op.in_row;
      const int64_t iy = y - op.top, first = phase - op.left;  // the input's column of row[0]
      if (iy < 0 || iy >= op.in_h) {
        memset(row, 0, op.in_row * 4);
        continue;
      }
      const float* from = in + iy * stride[2];
      int64_t x0 = first < 0 ? (-first + op.sx - 1) / op.sx : 0;
      int64_t x1 = first < op.in_w ? (op.in_w - 1 - first) / op.sx + 1 : 0;
      if (x1 > op.in_row) x1 = op.in_row;
      if (x0 > x1) x0 = x1;
      memset(row, 0, x0 * 4);
      if (op.sx == 1 && stride[3] == 1) memcpy(row + x0, from + first + x0, (x1 - x0) * 4);
      else
        for (int64_t x = x0; x < x1; x++) row[x] = from[(first + x * op.sx) * stride[3]];
      memset(row + x1, 0, (op.in_row - x1) * 4);
    }
}

// VL neighbouring outputs of each of U rows.
template <int U>
static INLINE void plane_tile(const Op& op, const float* in, const int64_t* at, const float* weight, V bias, V low,
                              V high, float* out, int64_t count) {
  V sum[U];
#pragma GCC unroll 4
  for (int u = 0; u < U; u++) sum[u] = bias;
  const int64_t taps = op.kh * op.kw;
  for (int64_t k = 0; k < taps; k++) {
    const V w = splat(weight[k]);
#pragma GCC unroll 4
    for (int u = 0; u < U; u++) sum[u] += load(in + at[k] + u * op.sy * op.in_row) * w;
  }
#pragma GCC unroll 4
  for (int u = 0; u < U; u++) {
    V x = clamp(sum[u], low, high);
    store_some(out + u * op.out_w, count, op.post ? post_one(int(op.post), x) : x);
  }
}

static void run_depthwise_planes(const Op& op, const Run& run, int thread, int threads) {
  const int64_t *stride = run.strides + op.tensor * 4, area = op.out_h * op.out_w;
  const float* clamp_at = run.weights + op.clamp;
  const V low = splat(clamp_at[0]), high = splat(clamp_at[1]);
  float* plane = run.arena + op.scratch + run.lane * op.scratch_size;
  int64_t at[MAX_TAPS];
  for (int64_t k = 0; k < op.kh * op.kw; k++) {
    const int64_t x = k % op.kw * op.dx;
    at[k] = x % op.sx * op.plane + k / op.kw * op.dy * op.in_row + x / op.sx;
  }
  Share share(op.images * op.channels, thread, threads);
  for (int64_t item = share.first; item < share.last; item++) {
    const int64_t c = item % op.channels, n = item / op.channels;
    padded_plane(op, run.given[op.tensor] + n * stride[0] + c * stride[1], stride, plane);
    const float* weight = run.weights + op.weight + c * op.kh * op.kw;
    const V bias = splat(run.weights[op.bias + c]);
    float* out = run.given[op.tensor_out] + (n * op.channels + c) * area;
    int64_t y = 0;
    for (; y + 4 <= op.out_h; y += 4)
      for (int64_t x = 0; x < op.out_w; x += VL)
        plane_tile<4>(op, plane + y * op.sy * op.in_row + x, at, weight, bias, low, high, out + y * op.out_w + x,
                      op.out_w - x);
    for (; y < op.out_h; y++)
      for (int64_t x = 0; x < op.out_w; x += VL)
        plane_tile<1>(op, plane + y * op.sy * op.in_row + x, at, weight, bias, low, high, out + y * op.out_w + x,
                      op.out_w - x);
  }
}

// GELU by tanh: x * (1 + tanh u) / 2 = x / (1 + exp(-2 u)), u = sqrt(2 / pi) (x + 0.044715 x^3).
static void run_gelu(const Op& op, const Run& run, int thread, int threads) {
  Share share((op.row + VL - 1) / VL, thread, threads);
  const float* in = run.given[op.tensor];
  float* out = run.given[op.tensor_out];
  for (int64_t i = share.first * VL; i < op.row && i < share.last * VL; i += VL) {
    V x = load_some(in + i, op.row - i);
    V u = x * (1.0f + x * x * 0.044715f) * 0.79788456080286536f;
    store_some(out + i, op.row - i, x / (1.0f + exponential(u * -2.0f)));
  }
}
