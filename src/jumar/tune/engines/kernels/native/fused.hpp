// A product whose only reader is a depthwise convolution: band by band of rows, panel by panel of channels, so that what
// is between the two never leaves the cache.
#pragma once
#include "conv.hpp"

struct Bands {
  const Op &expand, &depth;
  const Run& run;
  Product product;
  float* scratch;  // per channel block of the panel a plane of rows, `row` floats apart, zero at both ends
  int64_t row, plane;

  void zero_borders(int64_t blocks) const {
    int64_t left = expand.left * VL, used = (expand.left + expand.in_w) * VL;
    for (int64_t at = 0; at < blocks * plane; at += row) {
      memset(scratch + at, 0, left * 4);
      memset(scratch + at + used, 0, (row - used) * 4);
    }
  }
  // Rows [from, to) of the product into scratch, whose first row is row `origin`; rows outside the image are zero.
  void rows(int64_t n, int64_t panel, int64_t blocks, int64_t origin, int64_t from, int64_t to) const {
    for (int64_t y = from; y < to; y++)
      if (y < 0 || y >= expand.in_h)
        for (int64_t j = 0; j < blocks; j++) memset(scratch + j * plane + (y - origin) * row, 0, row * 4);
    if (from < 0) from = 0;
    if (to > expand.in_h) to = expand.in_h;
    if (from >= to) return;
    float* out = scratch - origin * row + expand.left * VL - panel * expand.nr * plane;
    const int32_t* at = run.tables + expand.out_at;
    if (expand.rows == 1)
      for (int64_t part = 0; part < product.parts(); part++)
        product.panel(n, 0, panel, 0, from * expand.in_w, to * expand.in_w, out, 0, at, plane, part);
    else
      for (int64_t part = 0; part < product.parts(); part++)
        for (int64_t y = from; y < to; y++) product.panel(n, 0, panel, y, 0, expand.row, out, 0, at, plane, part);
  }
};

static void run_fused(const Op& expand, const Op& depth, const Run& run, int thread, int threads) {
  Product product(expand, run);
  const int64_t row = expand.out_row, plane = expand.plane;
  Bands work{expand, depth, run, product, run.arena + expand.scratch + run.lane * expand.scratch_size, row, plane};
  DepthwiseRow compute = depthwise_of(depth);
  const float* limits = run.weights + depth.clamp;
  const V low = splat(limits[0]), high = splat(limits[1]);
  const int64_t span = (depth.kh - 1) * depth.dy + 1, panels = product.panels();
  int64_t bands = (depth.out_h + expand.band - 1) / expand.band, splits = 1;
  // With few panels the bands are shared out as well; a share then begins without the rows of its predecessor.
  if (threads > 1 && !Cuts::even(expand.images * panels, threads)) {
    splits = depth.out_h < threads ? depth.out_h : threads;
    bands = Cuts::up(bands, depth.out_h, int(splits));
  }
  Share share(expand.images * panels * splits, thread, threads);
  work.zero_borders(expand.nr);
  for (int64_t item = share.first; item < share.last; item++) {
    int64_t split = item % splits, p = item / splits % panels, n = item / splits / panels;
    int64_t blocks = expand.blocks - p * expand.nr < expand.nr ? expand.blocks - p * expand.nr : expand.nr;
    int64_t held_first = 0, held_last = INT64_MIN;  // rows of the input that scratch holds
    for (int64_t band = bands * split / splits; band < bands * (split + 1) / splits; band++) {
      int64_t y0 = depth.out_h * band / bands, y1 = depth.out_h * (band + 1) / bands;
      int64_t first = y0 * depth.sy - expand.top, last = (y1 - 1) * depth.sy - expand.top + span, begin = first;
      if (held_last > first) {
        for (int64_t j = 0; j < blocks; j++)
          memmove(work.scratch + j * plane, work.scratch + j * plane + (first - held_first) * row,
                  (held_last - first) * row * 4);
        begin = held_last;
      }
      work.rows(n, p, blocks, first, begin, last);
      held_first = first;
      held_last = last > begin ? last : begin;
      for (int64_t j = 0; j < blocks; j++) {
        int64_t block = p * expand.nr + j;
        const float* weight = run.weights + depth.weight + block * depth.kh * depth.kw * VL;
        const V bias = load(run.weights + depth.bias + block * VL);
        float* out = run.arena + depth.out + n * depth.out_image + block * depth.out_block;
        for (int64_t y = y0; y < y1; y++)
          compute(work.scratch + j * plane + (y - y0) * depth.sy * row, depth, row, weight, bias, low, high,
                  out + y * depth.out_row);
      }
    }
  }
}
