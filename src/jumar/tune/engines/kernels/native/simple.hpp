// Everything that is neither a product nor a depthwise convolution: borders, pools, copies, sums.
#pragma once
#include "op.hpp"

// An external tensor of any strides into blocked layout; channels up to the next multiple of VL become zero.
static void run_load(const Op& op, const Run& run, int thread, int threads) {
  const float* from = run.given[op.tensor];
  const int64_t* stride = run.strides + op.tensor * 4;
  if (stride[1] == 1 && op.channels % VL == 0) {  // channels last, or rows
    Share share(op.images * op.out_h, thread, threads);
    for (int64_t item = share.first; item < share.last; item++) {
      const int64_t y = item % op.out_h, n = item / op.out_h;
      const float* in = from + n * stride[0] + y * stride[2];
      float* out = run.arena + op.out + n * op.out_image + y * op.out_row;
      for (int64_t block = 0; block < op.blocks; block++)
        for (int64_t x = 0; x < op.out_w; x++)
          store(out + block * op.out_block + x * VL, load(in + block * VL + x * stride[3]));
    }
    return;
  }
  Share share(op.images * op.blocks * op.out_h, thread, threads);
  for (int64_t item = share.first; item < share.last; item++) {
    int64_t y = item % op.out_h, block = item / op.out_h % op.blocks, n = item / op.out_h / op.blocks;
    float* out = run.arena + op.out + n * op.out_image + block * op.out_block + y * op.out_row;
    const float* in = from + n * stride[0] + block * VL * stride[1] + y * stride[2];
    int64_t width = op.channels - block * VL < VL ? op.channels - block * VL : VL;
    for (int64_t c = 0; c < width; c++)
      for (int64_t x = 0; x < op.out_w; x++) out[x * VL + c] = in[c * stride[1] + x * stride[3]];
    for (int64_t c = width; c < VL; c++)
      for (int64_t x = 0; x < op.out_w; x++) out[x * VL + c] = 0.0f;
  }
}

// Whether VL channels follow each other.
static INLINE bool is_run(const int32_t* channel) {
  bool yes = true;
  for (int i = 1; i < VL; i++) yes &= channel[i] == channel[0] + i;
  return yes;
}

static void run_store(const Op& op, const Run& run, int thread, int threads) {
  float* to = run.given[op.tensor];
  const int64_t* stride = run.strides + op.tensor * 4;
  const int32_t* channel = run.tables + op.offsets;  // where each logical channel starts
  if (stride[1] == 1) {  // channels last, or rows
    Share share(op.images * op.out_h, thread, threads);
    for (int64_t item = share.first; item < share.last; item++) {
      const int64_t y = item % op.out_h, n = item / op.out_h;
      const float* in = run.arena + op.in + n * op.in_image + y * op.in_row;
      float* out = to + n * stride[0] + y * stride[2];
      for (int64_t c = 0; c < op.channels; c += VL) {
        const int64_t width = op.channels - c < VL ? op.channels - c : VL;
        const bool together = width == VL && is_run(channel + c);
        for (int64_t x = 0; x < op.out_w; x++) {
          float* at = out + x * stride[3] + c;
          if (together) store(at, load(in + channel[c] + x * VL));
          else for (int64_t i = 0; i < width; i++) at[i] = in[channel[c + i] + x * VL];
        }
      }
    }
    return;
  }
  Share share(op.images * op.channels, thread, threads);
  for (int64_t item = share.first; item < share.last; item++) {
    int64_t c = item % op.channels, n = item / op.channels;
    const float* in = run.arena + op.in + n * op.in_image + channel[c];
    float* out = to + n * stride[0] + c * stride[1];
    for (int64_t y = 0; y < op.out_h; y++)
      for (int64_t x = 0; x < op.out_w; x++) out[y * stride[2] + x * stride[3]] = in[y * op.in_row + x * VL];
  }
}

// Zeros around the pixels of a blocked value, for the paddings of what reads it.
static void run_halo(const Op& op, const Run& run, int thread, int threads) {
  Share share(op.images * op.blocks, thread, threads);
  for (int64_t item = share.first; item < share.last; item++) {
    float* out = run.arena + op.out + item / op.blocks * op.out_image + item % op.blocks * op.out_block;
    int64_t left = op.left * VL, right = op.right * VL, inside = op.out_w * VL;
    for (int64_t y = -op.top; y < op.out_h + op.bottom; y++) {
      float* row = out + y * op.out_row - left;
      if (y < 0 || y >= op.out_h) {
        memset(row, 0, (left + inside + right) * 4);
      } else {
        memset(row, 0, left * 4);
        memset(row + left + inside, 0, right * 4);
      }
    }
  }
}

// The input of a strided convolution, padded, with every phase (y mod sy, x mod sx) in a plane of its own, so that
// neighbouring outputs read neighbouring inputs. Blocked to blocked.
static void run_phases(const Op& op, const Run& run, int thread, int threads) {
  int64_t phases = op.phases;
  Share share(op.images * op.blocks * phases, thread, threads);
  for (int64_t item = share.first; item < share.last; item++) {
    int64_t phase = item % phases, block = item / phases % op.blocks, n = item / phases / op.blocks;
    int64_t py = phase / op.sx, px = phase % op.sx;
    const float* in = run.arena + op.in + n * op.in_image + block * op.in_block;
    float* out = run.arena + op.out + n * op.out_image + block * op.out_block + phase * op.plane;
    for (int64_t y = 0; y < op.out_h; y++)
      for (int64_t x = 0; x < op.out_w; x++) {
        int64_t iy = y * op.sy + py - op.top, ix = x * op.sx + px - op.left;
        bool inside = iy >= 0 && iy < op.in_h && ix >= 0 && ix < op.in_w;
        store(out + y * op.out_row + x * VL, inside ? load(in + iy * op.in_row + ix * VL) : splat(0.0f));
      }
  }
}

// The same for the first convolution, whose few channels stay planes of single numbers.
static void run_phase_planes(const Op& op, const Run& run, int thread, int threads) {
  int64_t phases = op.phases;
  const int64_t* stride = run.strides + op.tensor * 4;
  Share share(op.images * op.channels * phases * op.out_h, thread, threads);
  for (int64_t item = share.first; item < share.last; item++) {
    int64_t y = item % op.out_h, phase = item / op.out_h % phases, c = item / op.out_h / phases % op.channels;
    int64_t n = item / op.out_h / phases / op.channels;
    int64_t iy = y * op.sy + phase / op.sx - op.top, px = phase % op.sx - op.left;
    const float* in = run.given[op.tensor] + n * stride[0] + c * stride[1] + iy * stride[2];
    float* out = run.arena + op.out + n * op.out_image + c * op.out_block + phase * op.plane + y * op.out_row;
    if (iy < 0 || iy >= op.in_h) {
      memset(out, 0, op.out_w * 4);
      continue;
    }
    int64_t x0 = px < 0 ? (-px + op.sx - 1) / op.sx : 0, x1 = (op.in_w - px + op.sx - 1) / op.sx;
    if (x1 > op.out_w) x1 = op.out_w;
    for (int64_t x = 0; x < x0 && x < op.out_w; x++) out[x] = 0.0f;
    for (int64_t x = x0; x < x1; x++) out[x] = in[(x * op.sx + px) * stride[3]];
    for (int64_t x = x1 > x0 ? x1 : x0; x < op.out_w; x++) out[x] = 0.0f;
  }
}

// The taps [first, last) of `count`, `step` apart from `start` on, that lie in [0, size).
static INLINE void window(int64_t start, int64_t step, int64_t count, int64_t size, int64_t& first, int64_t& last) {
  first = start < 0 ? (-start + step - 1) / step : 0;
  last = start >= size ? 0 : (size - 1 - start) / step + 1;
  if (last > count) last = count;
  if (first > last) first = last;
}

// Maximum (average: sum, over the window's own count or a fixed one) over windows cut off at the borders.
static void run_pool(const Op& op, const Run& run, int thread, int threads) {
  Share share(op.images * op.blocks * op.out_h, thread, threads);
  for (int64_t item = share.first; item < share.last; item++) {
    int64_t oy = item % op.out_h, block = item / op.out_h % op.blocks, n = item / op.out_h / op.blocks;
    const float* in = run.arena + op.in + n * op.in_image + block * op.in_block;
    float* out = run.arena + op.out + n * op.out_image + block * op.out_block + oy * op.out_row;
    int64_t top = oy * op.sy - op.top, ky0, ky1;
    window(top, op.dy, op.kh, op.in_h, ky0, ky1);
    for (int64_t ox = 0; ox < op.out_w; ox++) {
      int64_t left = ox * op.sx - op.left, kx0, kx1;
      window(left, op.dx, op.kw, op.in_w, kx0, kx1);
      V value = splat(op.maximum ? -INFINITY : 0.0f);
      for (int64_t ky = ky0; ky < ky1; ky++) {
        const float* row = in + (top + ky * op.dy) * op.in_row + left * VL;
        for (int64_t kx = kx0; kx < kx1; kx++) {
          V v = load(row + kx * op.dx * VL);
          if (op.maximum) value = (v <= value) | (value != value) ? value : v;  // a NaN stays
          else value += v;
        }
      }
      if (!op.maximum) {
        int64_t height = op.kh < op.in_h + op.top - top ? op.kh : op.in_h + op.top - top;
        int64_t width = op.kw < op.in_w + op.left - left ? op.kw : op.in_w + op.left - left;
        int64_t count = op.count_padding ? height * width : (ky1 - ky0) * (kx1 - kx0);
        value = value / float(op.divisor ? op.divisor : count);
      }
      store(out + ox * VL, value);
    }
  }
}

// Mean over all pixels.
static void run_mean(const Op& op, const Run& run, int thread, int threads) {
  Share share(op.images * op.blocks, thread, threads);
  for (int64_t item = share.first; item < share.last; item++) {
    int64_t block = item % op.blocks, n = item / op.blocks;
    const float* in = run.arena + op.in + n * op.in_image + block * op.in_block;
    V sum = splat(0.0f);
    for (int64_t y = 0; y < op.in_h; y++) {
      V row = splat(0.0f);  // sums of rows first: the error grows with H + W, not with H * W
      for (int64_t x = 0; x < op.in_w; x++) row += load(in + y * op.in_row + x * VL);
      sum += row;
    }
    store(run.arena + op.out + n * op.out_image + block * op.out_block, sum / float(op.in_h * op.in_w));
  }
}

// Any choice of channels into a new value, each scaled and shifted, then clamped.
static void run_gather(const Op& op, const Run& run, int thread, int threads) {
  const float* clamp_at = run.weights + op.clamp;
  const V low = splat(clamp_at[0]), high = splat(clamp_at[1]);
  Share share(op.images * op.blocks, thread, threads);
  for (int64_t item = share.first; item < share.last; item++) {
    int64_t block = item % op.blocks, n = item / op.blocks;
    const int32_t* from = run.tables + op.offsets + block * VL;
    const V scale = load(run.weights + op.weight + block * VL), shift = load(run.weights + op.bias + block * VL);
    float* out = run.arena + op.out + n * op.out_image + block * op.out_block;
    bool together = true;
    for (int c = 1; c < VL; c++) together &= from[c] == from[0] + c;
    const float* in = run.arena + op.in + n * op.in_image;
    for (int64_t y = 0; y < op.out_h; y++)
      for (int64_t x = 0; x < op.out_w; x++) {
        const float* p = in + y * op.in_row + x * VL;
        float lanes[VL];
        V v;
        if (together) {
          v = load(p + from[0]);
        } else {
          for (int c = 0; c < VL; c++) lanes[c] = p[from[c]];
          v = load(lanes);
        }
        v = clamp(v * scale + shift, low, high);
        store(out + y * op.out_row + x * VL, op.post ? post_one(int(op.post), v) : v);
      }
  }
}

enum Binary { BINARY_ADD, BINARY_MUL, BINARY_SUB };

// Two values of one shape, or one whose second operand has one pixel an image.
static void run_binary(const Op& op, const Run& run, int thread, int threads) {
  const float* clamp_at = run.weights + op.clamp;
  const V low = splat(clamp_at[0]), high = splat(clamp_at[1]);
  Share share(op.images * op.blocks * op.out_h, thread, threads);
  for (int64_t item = share.first; item < share.last; item++) {
    int64_t y = item % op.out_h, block = item / op.out_h % op.blocks, n = item / op.out_h / op.blocks;
    const float* a = run.arena + op.in + n * op.in_image + block * op.in_block + y * op.in_row;
    const float* b = run.arena + op.other + n * op.other_image + block * op.other_block + y * op.other_row;
    float* out = run.arena + op.out + n * op.out_image + block * op.out_block + y * op.out_row;
    for (int64_t x = 0; x < op.out_w; x++) {
      V left = load(a + x * VL), right = load(b + x * op.other_step), v;
      if (op.kind == BINARY_ADD) v = left + right;
      else if (op.kind == BINARY_MUL) v = left * right;
      else v = left - right;
      v = clamp(v, low, high);
      store(out + x * VL, op.post ? post_one(int(op.post), v) : v);
    }
  }
}
