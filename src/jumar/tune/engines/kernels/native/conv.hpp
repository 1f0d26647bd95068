// Convolutions as matrix products over lists of offsets, and depthwise ones.
#pragma once
#include "op.hpp"

// Computes pixels [first, last) of one row (or of the whole image where rows follow each other) for `width` blocks.
static INLINE void product_pixels(const Micro* kernels, int rows, int64_t step, const float* in, const int32_t* offset,
                                  int64_t depth, const float* weight, Out o, int64_t first, int64_t last) {
  int64_t count = last - first, tiles = (count + rows - 1) / rows, at = first;
  const int32_t *out_at = o.out_at, *other_at = o.other_at;
  for (int64_t tile = 0; tile < tiles; tile++) {
    int64_t next = first + count * (tile + 1) / tiles;  // tiles of nearly equal size
    o.out_at = out_at + at;
    o.other_at = other_at + at;
    kernels[next - at](in + at * step, offset, depth, weight, o);
    o.ahead = 0;  // the first tile has fetched them
    at = next;
  }
}

struct Product {
  const Op& op;
  const Run& run;
  const Micro (*kernels)[MAX_ROWS + 1];
  int64_t step;
  Product(const Op& op_, const Run& run_) : op(op_), run(run_) {
    kernels = op.planes ? micros.planes : micros.blocked;
    step = op.planes ? 1 : VL;
  }
  // Channel blocks [panel * nr, ...) of pixels [first, last) of row `y` of image n in group g, written from `out` on;
  // part `part` of the sum.
  void panel(int64_t n, int64_t g, int64_t panel, int64_t y, int64_t first, int64_t last, float* out, int64_t image,
             const int32_t* out_at, int64_t out_block, int64_t part) const {
    int64_t width = op.blocks - panel * op.nr < op.nr ? op.blocks - panel * op.nr : op.nr;
    int64_t block = g * op.blocks + panel * op.nr, begin = part * op.part;
    bool is_last = part == parts() - 1;
    int64_t depth = is_last ? op.depth - begin : op.part;
    const float* clamp = run.weights + op.clamp;
    Out o{out + n * image + block * out_block, out_at + y * op.row, out_block,
          op.other < 0 ? nullptr : run.arena + op.other + n * op.other_image + block * op.other_block,
          run.tables + op.other_at + y * op.row, op.other_block,
          part ? nullptr : run.weights + op.bias + block * VL, op.depth * width * VL, is_last, clamp[0], clamp[1],
          int(op.post)};
    product_pixels(kernels[width], rows_of(int(width)), step, run.arena + op.in + n * op.in_image + y * op.in_row,
                   run.tables + op.offsets + 2 * (g * op.depth + begin), depth,
                   run.weights + op.weight + block * op.depth * VL + begin * width * VL, o, first, last);
  }
  // Parts of the sum, of op.part terms each, the last of up to twice as many.
  int64_t parts() const { return op.depth < 2 * op.part ? 1 : op.depth / op.part; }
  int64_t panels() const { return (op.blocks + op.nr - 1) / op.nr; }
};

// How the work is shared out: images and groups where there are enough of them, else rows or pixels, or the panels
// where weights are more than inputs, so that no thread reads what another has.
struct Cuts {
  int64_t rows, pixels, panels;  // into how many pieces each
  Cuts(const Op& op, int64_t all_panels, int threads) {
    pixels = (op.row + op.chunk - 1) / op.chunk;
    const int64_t rows_chunk = op.chunk / op.row > 1 ? op.chunk / op.row : 1;
    rows = (op.rows + rows_chunk - 1) / rows_chunk;
    panels = 1;
    if (threads == 1 || even(op.images * op.groups, threads)) return;
    const bool by_panels = even(all_panels, threads), by_rows = even(op.rows, threads);
    const bool by_pixels = op.rows == 1 && op.row >= 8 * threads;
    if (by_panels && (op.blocks * VL > op.rows * op.row || !(by_rows || by_pixels))) panels = all_panels;
    else if (by_rows) rows = up(rows, op.rows, threads);
    else if (by_pixels) pixels = up(pixels, op.row, threads);
    else {
      panels = all_panels;
      rows = op.rows;
    }
  }
  // Whether so many pieces of equal size give every thread nearly the same.
  static bool even(int64_t pieces, int threads) { return pieces % threads == 0 || pieces >= 8 * threads; }
  static int64_t up(int64_t pieces, int64_t most, int threads) {
    pieces = (pieces + threads - 1) / threads * threads;
    return pieces > most ? most : pieces;
  }
};

// Work is cut into chunks of pixels whose inputs stay in the second-level cache; over each chunk all panels pass.
static void run_product(const Op& op, const Run& run, int thread, int threads) {
  Product product(op, run);
  const int64_t panels = product.panels();
  const Cuts cuts(op, panels, threads);
  const int64_t chunks_row = cuts.pixels, row_chunks = cuts.rows;
  const int64_t chunks = op.images * op.groups * row_chunks * chunks_row;
  const int64_t parts = cuts.panels < threads ? cuts.panels : threads;
  Share share(chunks * parts, thread, threads);
  for (int64_t item = share.first; item < share.last; item++) {
    int64_t part = item / chunks, rest = item % chunks;
    int64_t piece = rest % chunks_row; rest /= chunks_row;
    int64_t band = rest % row_chunks; rest /= row_chunks;
    int64_t g = rest % op.groups, n = rest / op.groups;
    int64_t first = op.row * piece / chunks_row, last = op.row * (piece + 1) / chunks_row;
    int64_t y0 = op.rows * band / row_chunks, y1 = op.rows * (band + 1) / row_chunks;
    for (int64_t sum = 0; sum < product.parts(); sum++)
      for (int64_t p = panels * part / parts; p < panels * (part + 1) / parts; p++)
        for (int64_t y = y0; y < y1; y++)
          product.panel(n, g, p, y, first, last, run.arena + op.out, op.out_image, run.tables + op.out_at,
                        op.out_block, sum);
  }
}

// Depthwise: U neighbouring outputs of one row at a time. With the taps of a row known (KW), every input is loaded once
// for all outputs that it counts for, and the weights of the row stay in registers.
template <int U, int S, int KW>
static INLINE void depthwise_taps(V* sum, const float* p, const float* weight, int64_t kw, int64_t dx) {
  if constexpr (KW > 0) {
    V w[KW];
#pragma GCC unroll 8
    for (int kx = 0; kx < KW; kx++) w[kx] = load(weight + kx * VL);
#pragma GCC unroll 32
    for (int i = 0; i < (U - 1) * S + KW; i++) {
      const V x = held(load(p + i * VL));
#pragma GCC unroll 8
      for (int kx = 0; kx < KW; kx++)
        if (i >= kx && (i - kx) % S == 0 && (i - kx) / S < U) sum[(i - kx) / S] += x * w[kx];
    }
  } else {
    for (int64_t kx = 0; kx < kw; kx++) {
      V w = load(weight + kx * VL);
#pragma GCC unroll 16
      for (int u = 0; u < U; u++) sum[u] += load(p + (u * S + kx * dx) * VL) * w;
    }
  }
}

template <int U, int S, int KW>
static INLINE void depthwise_tile(const float* in, int64_t row, const float* weight, int64_t kh, int64_t kw_, int64_t dy,
                                  int64_t dx, V bias, V low, V high, int post, float* out) {
  const int64_t kw = KW ? KW : kw_;
  V sum[U];
#pragma GCC unroll 16
  for (int u = 0; u < U; u++) sum[u] = bias;
  for (int64_t ky = 0; ky < kh; ky++) depthwise_taps<U, S, KW>(sum, in + ky * dy * row, weight + ky * kw * VL, kw, dx);
#pragma GCC unroll 16
  for (int u = 0; u < U; u++) store(out + u * VL, clamp(sum[u], low, high));
  if (__builtin_expect(post != POST_NONE, 0)) post_all(post, out, U);
}

template <int S, int KW>
static void depthwise_row(const float* in, const Op& op, int64_t row, const float* weight, V bias, V low, V high,
                          float* out) {
  constexpr int U = 8;
  int64_t x = 0;
  int post = int(op.post);
#define TILE(N) depthwise_tile<N, S, KW>(in + x * S * VL, row, weight, op.kh, op.kw, op.dy, op.dx, bias, low, high, post, out + x * VL)
  for (; x + U <= op.out_w; x += U) TILE(U);
  switch (op.out_w - x) {
    case 7: return TILE(7);
    case 6: return TILE(6);
    case 5: return TILE(5);
    case 4: return TILE(4);
    case 3: return TILE(3);
    case 2: return TILE(2);
    case 1: return TILE(1);
  }
#undef TILE
}

static void depthwise_any(const float* in, const Op& op, int64_t row, const float* weight, V bias, V low, V high,
                          float* out) {
  for (int64_t x = 0; x < op.out_w; x++)
    depthwise_tile<1, 1, 0>(in + x * op.sx * VL, row, weight, op.kh, op.kw, op.dy, op.dx, bias, low, high,
                            int(op.post), out + x * VL);
}

typedef void (*DepthwiseRow)(const float*, const Op&, int64_t, const float*, V, V, V, float*);

static DepthwiseRow depthwise_of(const Op& op) {
  bool dense = op.dx == 1;
  if (dense && op.sx == 1 && op.kw == 3) return depthwise_row<1, 3>;
  if (dense && op.sx == 2 && op.kw == 3) return depthwise_row<2, 3>;
  if (dense && op.sx == 1 && op.kw == 5) return depthwise_row<1, 5>;
  if (dense && op.sx == 2 && op.kw == 5) return depthwise_row<2, 5>;
  if (op.sx == 1) return depthwise_row<1, 0>;
  if (op.sx == 2) return depthwise_row<2, 0>;
  return depthwise_any;
}

static void run_depthwise(const Op& op, const Run& run, int thread, int threads) {
  DepthwiseRow compute = depthwise_of(op);
  const float* clamp = run.weights + op.clamp;
  const V low = splat(clamp[0]), high = splat(clamp[1]);
  int64_t bands = op.images * op.blocks >= 4 * threads || threads == 1 ? 1 : (op.out_h < threads ? op.out_h : threads);
  Share share(op.images * op.blocks * bands, thread, threads);
  for (int64_t item = share.first; item < share.last; item++) {
    int64_t band = item % bands, block = item / bands % op.blocks, n = item / bands / op.blocks;
    const float* weight = run.weights + op.weight + block * op.kh * op.kw * VL;
    const V bias = load(run.weights + op.bias + block * VL);
    const float* in = run.arena + op.in + n * op.in_image + block * op.in_block;
    float* out = run.arena + op.out + n * op.out_image + block * op.out_block;
    for (int64_t y = op.out_h * band / bands; y < op.out_h * (band + 1) / bands; y++)
      compute(in + y * op.sy * op.in_row, op, op.in_row, weight, bias, low, high, out + y * op.out_row);
  }
}
