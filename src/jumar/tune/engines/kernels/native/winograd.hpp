// Convolutions 3x3 of stride 1 as F(m x m, 3 x 3), m = 2 or 4 (A. Lavin and S. Gray, Fast Algorithms for
// Convolutional Neural Networks, CVPR 2016): Y = A' [ (G g G') . (B' d B) ] A, the product over channels in the middle.
#pragma once
#include "conv.hpp"

// Each transform of one dimension by Cook and Toom from its points; weights.py has the matrix of the weights to these.
// Pairs of points +p, -p share the even and the odd half of their sums.
template <int M> struct Transform;

// Points 0, 1, -1 and infinity.
template <> struct Transform<2> {
  static INLINE void input(const V* d, int step, V* e, int step_e) {
    V a = d[0], b = d[step], c = d[2 * step], f = d[3 * step];
    e[0] = c - a;
    e[step_e] = c + b;
    e[2 * step_e] = c - b;
    e[3 * step_e] = f - b;
  }
  static INLINE void output(const V* d, int step, V* e, int step_e) {
    V sum = d[step] + d[2 * step], difference = d[step] - d[2 * step];
    e[0] = d[0] + sum;
    e[step_e] = difference + d[3 * step];
  }
};

// Points 0, 5/8, -5/8, 3/2, -3/2 and infinity: a third of the error of the usual 0, 1, -1, 2, -2 (measured).
template <> struct Transform<4> {
  static constexpr float p = 0.625f, q = 1.5f, p2 = p * p, q2 = q * q;
  static INLINE void input(const V* d, int step, V* e, int step_e) {
    V d1 = d[step], d2 = d[2 * step], d3 = d[3 * step], d4 = d[4 * step];
    V even_p = d4 - d2 * q2, odd_p = (d3 - d1 * q2) * p, even_q = d4 - d2 * p2, odd_q = (d3 - d1 * p2) * q;
    e[0] = d4 - d2 * (p2 + q2) + d[0] * (p2 * q2);
    e[step_e] = even_p + odd_p;
    e[2 * step_e] = even_p - odd_p;
    e[3 * step_e] = even_q + odd_q;
    e[4 * step_e] = even_q - odd_q;
    e[5 * step_e] = d[5 * step] - d3 * (p2 + q2) + d1 * (p2 * q2);
  }
  static INLINE void output(const V* d, int step, V* e, int step_e) {
    V sum_p = d[step] + d[2 * step], difference_p = d[step] - d[2 * step];
    V sum_q = d[3 * step] + d[4 * step], difference_q = d[3 * step] - d[4 * step];
    e[0] = d[0] + sum_p + sum_q;
    e[step_e] = difference_p * p + difference_q * q;
    e[2 * step_e] = sum_p * p2 + sum_q * q2;
    e[3 * step_e] = difference_p * (p2 * p) + difference_q * (q2 * q) + d[5 * step];
  }
};

// The tile of (M + 2) x (M + 2) inputs whose first is (y, x) of a plane; zeros beyond the image.
template <int M>
static INLINE void read_tile(const Op& op, const float* in, int64_t y, int64_t x, V* d) {
  constexpr int A = M + 2;
  if (y >= 0 && x >= 0 && y + A <= op.in_h && x + A <= op.in_w) {
    for (int i = 0; i < A; i++)
#pragma GCC unroll 8
      for (int j = 0; j < A; j++) d[i * A + j] = load(in + (y + i) * op.in_row + (x + j) * VL);
    return;
  }
  static const float zeros[VL] = {};
  for (int i = 0; i < A; i++) {
    const bool row = y + i >= 0 && y + i < op.in_h;
    const float* p = in + (y + i) * op.in_row + x * VL;
#pragma GCC unroll 8
    for (int j = 0; j < A; j++) d[i * A + j] = load(row && x + j >= 0 && x + j < op.in_w ? p + j * VL : zeros);
  }
}

// Inputs to [point][channel block][image, tile][VL]; points lie op.plane apart.
template <int M>
static void tiles_in(const Op& op, const Run& run, int thread, int threads) {
  constexpr int A = M + 2;
  const int64_t across = (op.out_w + M - 1) / M, down = (op.out_h + M - 1) / M;
  Share share(op.images * op.blocks * down, thread, threads);
  for (int64_t item = share.first; item < share.last; item++) {
    const int64_t row = item % down, block = item / down % op.blocks, n = item / down / op.blocks;
    const float* in = run.arena + op.in + n * op.in_image + block * op.in_block;
    float* to = run.arena + op.out + block * op.out_block + n * op.out_image + row * across * VL;
    for (int64_t t = 0; t < across; t++) {
      V d[A * A], e[A * A];
      read_tile<M>(op, in, row * M - op.top, t * M - op.left, d);
      
#pragma GCC unroll 8
      for (int j = 0; j < A; j++) Transform<M>::input(d + j, A, e + j, A);
#pragma GCC unroll 8
      for (int i = 0; i < A; i++) Transform<M>::input(e + i * A, 1, d + i * A, 1);
      for (int i = 0; i < A * A; i++) store(to + i * op.plane + t * VL, d[i]);
    }
  }
}

// And the products at all points back to outputs, with what follows the convolution.
template <int M>
static void tiles_out(const Op& op, const Run& run, int thread, int threads) {
  constexpr int A = M + 2;
  const int64_t across = (op.out_w + M - 1) / M, down = (op.out_h + M - 1) / M;
  const float* limits = run.weights + op.clamp;
  const V low = splat(limits[0]), high = splat(limits[1]);
  Share share(op.images * op.blocks * down, thread, threads);
  for (int64_t item = share.first; item < share.last; item++) {
    const int64_t row = item % down, block = item / down % op.blocks, n = item / down / op.blocks;
    const V bias = load(run.weights + op.bias + block * VL);
    const float* in = run.arena + op.in + block * op.in_block + n * op.in_image + row * across * VL;
    float* out = run.arena + op.out + n * op.out_image + block * op.out_block + row * M * op.out_row;
    const float* other = op.other < 0 ? nullptr : run.arena + op.other + n * op.other_image +
                                                      block * op.other_block + row * M * op.other_row;
    const int64_t height = op.out_h - row * M < M ? op.out_h - row * M : M;
    for (int64_t t = 0; t < across; t++) {
      V d[A * A], e[M * A], f[M * M];
      for (int i = 0; i < A * A; i++) d[i] = load(in + i * op.plane + t * VL);
      
#pragma GCC unroll 8
      for (int j = 0; j < A; j++) Transform<M>::output(d + j, A, e + j, A);
#pragma GCC unroll 8
      for (int i = 0; i < M; i++) Transform<M>::output(e + i * A, 1, f + i * M, 1);
      const int64_t width = op.out_w - t * M < M ? op.out_w - t * M : M;
      for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++) {
          V v = f[y * M + x] + bias;
          if (other) v += load(other + y * op.other_row + (t * M + x) * VL);
          v = clamp(v, low, high);
          store(out + y * op.out_row + (t * M + x) * VL, op.post ? post_one(int(op.post), v) : v);
        }
    }
  }
}

template <int M>
static void winograd_block(const Op& op, const Run& run, int64_t n, int64_t tile0, int64_t tiles, float* scratch) {
  constexpr int A = M + 2;
  const int64_t across = (op.out_w + M - 1) / M;
  float* moved = scratch;                                       // [A*A][in blocks][tiles][VL]
  float* product = scratch + A * A * op.in_blocks * tiles * VL;  // [A*A][nr][tiles][VL]
  const int32_t* rows = run.tables + op.out_at;                  // 0, VL, 2 VL, ...
  for (int64_t block = 0; block < op.in_blocks; block++) {
    const float* in = run.arena + op.in + n * op.in_image + block * op.in_block;
    for (int64_t t = 0; t < tiles; t++) {
      int64_t y = (tile0 + t) / across * M - op.top, x = (tile0 + t) % across * M - op.left;
      V d[A * A], e[A * A];
      read_tile<M>(op, in, y, x, d);
      
#pragma GCC unroll 8
      for (int j = 0; j < A; j++) Transform<M>::input(d + j, A, e + j, A);
#pragma GCC unroll 8
      for (int i = 0; i < A; i++) Transform<M>::input(e + i * A, 1, d + i * A, 1);
      float* to = moved + (block * tiles + t) * VL;
      for (int i = 0; i < A * A; i++) store(to + i * op.in_blocks * tiles * VL, d[i]);
    }
  }
  const float* limits = run.weights + op.clamp;
  const V low = splat(limits[0]), high = splat(limits[1]);
  const float infinite = INFINITY;
  for (int64_t panel = 0; panel * op.nr < op.blocks; panel++) {
    int64_t width = op.blocks - panel * op.nr < op.nr ? op.blocks - panel * op.nr : op.nr;
    for (int i = 0; i < A * A; i++) {
      Out o{product + i * width * tiles * VL, rows, tiles * VL, nullptr, rows, 0, run.weights + op.zeros,
            op.depth * width * VL, true, -infinite, infinite, 0};
      const float* weight = run.weights + op.weight + (panel * op.nr * A * A + i * width) * op.depth * VL;
      product_pixels(micros.blocked[width], rows_of(int(width)), VL, moved + i * op.in_blocks * tiles * VL,
                     run.tables + op.offsets + 2 * (tiles - op.min_tiles) * op.depth, op.depth, weight, o, 0, tiles);
    }
    for (int64_t j = 0; j < width; j++) {
      int64_t block = panel * op.nr + j;
      const V bias = load(run.weights + op.bias + block * VL);
      float* out = run.arena + op.out + n * op.out_image + block * op.out_block;
      const float* other = op.other < 0 ? nullptr : run.arena + op.other + n * op.other_image + block * op.other_block;
      for (int64_t t = 0; t < tiles; t++) {
        V d[A * A], e[M * A], f[M * M];
        for (int i = 0; i < A * A; i++) d[i] = load(product + ((i * width + j) * tiles + t) * VL);
        
#pragma GCC unroll 8
      for (int j = 0; j < A; j++) Transform<M>::output(d + j, A, e + j, A);
  #pragma GCC unroll 8
      for (int i = 0; i < M; i++) Transform<M>::output(e + i * A, 1, f + i * M, 1);
        int64_t y0 = (tile0 + t) / across * M, x0 = (tile0 + t) % across * M;
        for (int y = 0; y < M && y0 + y < op.out_h; y++)
          for (int x = 0; x < M && x0 + x < op.out_w; x++) {
            V v = f[y * M + x] + bias;
            if (other) v += load(other + (y0 + y) * op.other_row + (x0 + x) * VL);
            v = clamp(v, low, high);
            store(out + (y0 + y) * op.out_row + (x0 + x) * VL, op.post ? post_one(int(op.post), v) : v);
          }
      }
    }
  }
}

static void run_winograd(const Op& op, const Run& run, int thread, int threads) {
  int64_t m = op.kind, tiles = ((op.out_h + m - 1) / m) * ((op.out_w + m - 1) / m);
  float* scratch = run.arena + op.scratch + run.lane * op.scratch_size;
  const int64_t count = op.band;  // of min_tiles or min_tiles + 1 tiles each: there is a list of offsets for either
  Share share(op.images * count, thread, threads);
  for (int64_t item = share.first; item < share.last; item++) {
    int64_t n = item / count, i = item % count;
    int64_t first = i * tiles / count, last = (i + 1) * tiles / count;
    if (m == 4) winograd_block<4>(op, run, n, first, last - first, scratch);
    else winograd_block<2>(op, run, n, first, last - first, scratch);
  }
}
