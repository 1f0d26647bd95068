// Batch normalisation in training, with ReLU behind it where it has one, of images with their channels last.
//
// x is rows × channels, float. Sums are taken of blocks of rows in float, about a value of the channel itself, and of
// the blocks in double: one pass over memory, and an error that does not grow with the number of rows. The backward
// computes the sign of the ReLU's input again instead of reading it.
#include <cstdint>
#include <cmath>
#include <cstring>
#include <memory>

extern "C" void GOMP_parallel(void (*)(void*), void*, unsigned, unsigned);  // of the OpenMP that PyTorch has loaded
extern "C" int omp_get_thread_num();
extern "C" int omp_get_num_threads();

namespace {

constexpr int64_t kBlock = 128;  // rows, a multiple of kRows
constexpr int64_t kRows = 4;
constexpr int64_t kWide = 64;    // channels whose sums stay in registers or the nearest cache

// Calls `work` with each number below `threads`. The runtime may give fewer threads than were asked for (a limit, or
// inside another parallel region); those there are take the numbers of the others as well.
template <class Work>
void each(int threads, const Work& work) {
  if (threads <= 1) return work(0);
  struct Team {
    const Work& work;
    int numbers;
  } team{work, threads};
  GOMP_parallel(
      [](void* data) {
        const Team& all = *static_cast<const Team*>(data);
        const int present = omp_get_num_threads();
        for (int number = omp_get_thread_num(); number < all.numbers; number += present) all.work(number);
      },
      &team, static_cast<unsigned>(threads), 0);
}

struct Share {
  int64_t first, last;
  Share(int64_t rows, int threads, int number) {
    const int64_t blocks = (rows + kBlock - 1) / kBlock;
    first = blocks * number / threads * kBlock;
    last = blocks * (number + 1) / threads * kBlock;
    if (last > rows) last = rows;
  }
};

// Adds the sums of two quantities a row over rows [first, last) to sums[0..c) and sums[c..2c).
template <class Pair>
void sum_rows(int64_t first, int64_t last, int64_t channels, double* sums, const Pair& pair) {
  float one[kWide], two[kWide];
  for (int64_t row = first; row < last; row += kBlock) {
    const int64_t end = row + kBlock < last ? row + kBlock : last;
    for (int64_t c0 = 0; c0 < channels; c0 += kWide) {
      const int64_t width = channels - c0 < kWide ? channels - c0 : kWide;
      std::memset(one, 0, sizeof one);
      std::memset(two, 0, sizeof two);
      int64_t r = row;
      for (; r + kRows <= end; r += kRows) {
#pragma GCC ivdep
        for (int64_t c = 0; c < width; ++c) {
          float p0, p1, p2, p3, q0, q1, q2, q3;
          pair(r, c0 + c, p0, q0);
          pair(r + 1, c0 + c, p1, q1);
          pair(r + 2, c0 + c, p2, q2);
          pair(r + 3, c0 + c, p3, q3);
          one[c] += (p0 + p1) + (p2 + p3);
          two[c] += (q0 + q1) + (q2 + q3);
        }
      }
      for (; r < end; ++r) {
#pragma GCC ivdep
        for (int64_t c = 0; c < width; ++c) {
          float p, q;
          pair(r, c0 + c, p, q);
          one[c] += p;
          two[c] += q;
        }
      }
      for (int64_t c = 0; c < width; ++c) {
        sums[c0 + c] += one[c];
        sums[channels + c0 + c] += two[c];
      }
    }
  }
}

template <class Pair>
void sum_all(int64_t rows, int64_t channels, int threads, double* sums, const Pair& pair) {
  auto partial = std::make_unique<double[]>(static_cast<size_t>(2 * channels * threads));
  each(threads, [&](int number) {
    const Share share(rows, threads, number);
    sum_rows(share.first, share.last, channels, partial.get() + 2 * channels * number, pair);
  });
  for (int64_t c = 0; c < 2 * channels; ++c) {
    sums[c] = 0;
    for (int t = 0; t < threads; ++t) sums[c] += partial[2 * channels * t + c];
  }
}

}  // namespace

// mean and variance (biased), inverse standard deviation, and the normalised rows.
extern "C" void jumar_batch_norm(
    const float* __restrict x, const float* weight, const float* bias, float* __restrict out, float* mean,
    float* variance, float* inverse, int64_t rows, int64_t channels, double eps, int relu, int threads) {
  auto sums = std::make_unique<double[]>(static_cast<size_t>(2 * channels));
  const float* about = x;
  sum_all(rows, channels, threads, sums.get(), [=](int64_t r, int64_t c, float& p, float& q) {
    p = x[r * channels + c] - about[c];
    q = p * p;
  });
  auto scale = std::make_unique<float[]>(static_cast<size_t>(2 * channels));
  float* shift = scale.get() + channels;
  for (int64_t c = 0; c < channels; ++c) {
    const double m = sums[c] / rows, squares = sums[channels + c] / rows - m * m;
    const double v = squares < 0 ? 0.0 : squares;  // NaN stays
    mean[c] = static_cast<float>(about[c] + m);
    variance[c] = static_cast<float>(v);
    inverse[c] = static_cast<float>(1 / std::sqrt(v + eps));
    scale[c] = inverse[c] * weight[c];
    shift[c] = bias[c];
  }
  const float *a = scale.get(), *b = shift, *m = mean;
  const float least = relu ? 0.0f : -INFINITY;
  each(threads, [=](int number) {
    const Share share(rows, threads, number);
    for (int64_t r = share.first; r < share.last; ++r) {
      const float* from = x + r * channels;
      float* to = out + r * channels;
#pragma GCC ivdep
      for (int64_t c = 0; c < channels; ++c) {
        const float y = (from[c] - m[c]) * a[c] + b[c];
        to[c] = y < least ? least : y;  // NaN stays
      }
    }
  });
}

extern "C" void jumar_batch_norm_backward(
    const float* __restrict gradient, const float* __restrict x, const float* weight, const float* bias,
    const float* mean, const float* inverse, float* __restrict to_x, float* to_weight, float* to_bias, int64_t rows,
    int64_t channels, int relu, int threads) {
  auto sums = std::make_unique<double[]>(static_cast<size_t>(2 * channels));
  auto work = std::make_unique<float[]>(static_cast<size_t>(3 * channels));
  float *a = work.get(), *level = a + channels, *slope = level + channels;
  for (int64_t c = 0; c < channels; ++c) a[c] = inverse[c] * weight[c];
  const float least = relu ? 0.0f : -INFINITY;
  const auto behind = [=](int64_t at, int64_t c) {  // the gradient of the normalised value
    const float y = (x[at] - mean[c]) * a[c] + bias[c], given = gradient[at];
    return y > least ? given : 0.0f;
  };
  sum_all(rows, channels, threads, sums.get(), [=](int64_t r, int64_t c, float& p, float& q) {
    const int64_t at = r * channels + c;
    p = behind(at, c);
    q = p * (x[at] - mean[c]);
  });
  for (int64_t c = 0; c < channels; ++c) {
    const double of_inverse = sums[channels + c] * inverse[c];
    to_bias[c] = static_cast<float>(sums[c]);
    to_weight[c] = static_cast<float>(of_inverse);
    level[c] = static_cast<float>(sums[c] / rows);
    slope[c] = static_cast<float>(of_inverse * inverse[c] / rows);
  }
  const float *l = level, *s = slope;
  each(threads, [=](int number) {
    const Share share(rows, threads, number);
    for (int64_t r = share.first; r < share.last; ++r) {
#pragma GCC ivdep
      for (int64_t c = 0; c < channels; ++c) {
        const int64_t at = r * channels + c;
        to_x[at] = a[c] * (behind(at, c) - l[c] - (x[at] - mean[c]) * s[c]);
      }
    }
  });
}
