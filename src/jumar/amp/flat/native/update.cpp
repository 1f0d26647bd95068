// Updates of optimizers that PyTorch has no fused kernel for, over flat arrays: every value is read once and written once.
//
// Each function takes the number of threads, the number of elements, the parameter, the gradient, three states (null
// where an option does without), and the options as doubles in the order of the Python side (kernels.py). The gradient is
// first multiplied by `factor`, and written back if that is not 1. Lamb and AdamP also take the pieces of the array, the
// parameters in it: where each starts, its length, and its rows (0: it has fewer than two dimensions).
#include <cmath>
#include <cstdint>
#include <memory>

extern "C" void GOMP_parallel(void (*)(void*), void*, unsigned, unsigned);  // of the OpenMP that PyTorch has loaded
extern "C" int omp_get_thread_num();
extern "C" int omp_get_num_threads();

namespace {

constexpr int64_t kGrain = 1 << 15;  // elements that are worth a thread
constexpr int64_t kBlock = 1 << 12;  // elements whose sums are taken in the array's own type

// Calls `work` with each number below `count`, on at most `threads` threads. The runtime may give fewer.
template <class Work>
void each(int threads, int64_t count, const Work& work) {
  if (threads > count) threads = static_cast<int>(count);
  if (threads <= 1) {
    for (int64_t number = 0; number < count; ++number) work(number);
    return;
  }
  struct Team {
    const Work& work;
    int64_t count;
  } team{work, count};
  GOMP_parallel(
      [](void* data) {
        const Team& all = *static_cast<const Team*>(data);
        const int64_t present = omp_get_num_threads(), own = omp_get_thread_num();
        for (int64_t number = own; number < all.count; number += present) all.work(number);
      },
      &team, static_cast<unsigned>(threads), 0);
}

// Calls `work` with the first and the last element of each thread's share.
template <class Work>
void spans(int threads, int64_t n, const Work& work) {
  const int64_t parts = n / kGrain < threads ? n / kGrain + 1 : threads;
  each(threads, parts, [&](int64_t part) { work(n * part / parts, n * (part + 1) / parts); });
}

template <class T>
void rmsprop(int threads, int64_t n, T* p, T* g, T* squares, T* buffer, T* mean, const double* o) {
  const T lr = o[0], alpha = o[1], rate = 1 - o[1], eps = o[2], decay = o[3], momentum = o[4], factor = o[5];
  const T sign = o[6] != 0 ? -1 : 1;
  spans(threads, n, [&](int64_t first, int64_t last) {
#define LOOP(BUFFER, MEAN)                                                             \
  _Pragma("GCC ivdep") for (int64_t i = first; i < last; ++i) {                        \
    const T given = g[i] * factor;                                                     \
    if (factor != 1) g[i] = given;                                                     \
    const T gradient = sign * given + decay * p[i];                                    \
    const T square = squares[i] * alpha + rate * gradient * gradient;                  \
    squares[i] = square;                                                               \
    T variance = square;                                                               \
    if (MEAN) {                                                                        \
      const T average = mean[i] + rate * (gradient - mean[i]);                         \
      mean[i] = average;                                                               \
      variance = square - average * average;                                           \
    }                                                                                  \
    const T scaled = gradient / (std::sqrt(variance) + eps);                           \
    if (BUFFER) {                                                                      \
      const T moved = buffer[i] * momentum + scaled;                                   \
      buffer[i] = moved;                                                               \
      p[i] -= lr * moved;                                                              \
    } else {                                                                           \
      p[i] -= lr * scaled;                                                             \
    }                                                                                  \
  }
    if (buffer && mean) { LOOP(true, true) }
    else if (buffer) { LOOP(true, false) }
    else if (mean) { LOOP(false, true) }
    else { LOOP(false, false) }
#undef LOOP
  });
}

template <class T>
void rmsprop_tf(int threads, int64_t n, T* p, T* g, T* squares, T* buffer, T* mean, const double* o) {
  const T lr = o[0], rate = 1 - o[1], eps = o[2], decay = o[3], momentum = o[4], factor = o[5], shrink = o[7];
  const T inside = o[6] != 0 ? o[0] : 1, outside = o[6] != 0 ? 1 : o[0];
  spans(threads, n, [&](int64_t first, int64_t last) {
#define LOOP(BUFFER, MEAN)                                                             \
  _Pragma("GCC ivdep") for (int64_t i = first; i < last; ++i) {                        \
    const T given = g[i] * factor;                                                     \
    if (factor != 1) g[i] = given;                                                     \
    const T weight = p[i] * shrink;                                                    \
    const T gradient = given + decay * weight;                                         \
    const T square = squares[i] + rate * (gradient * gradient - squares[i]);           \
    squares[i] = square;                                                               \
    T variance = square;                                                               \
    if (MEAN) {                                                                        \
      const T average = mean[i] + rate * (gradient - mean[i]);                         \
      mean[i] = average;                                                               \
      variance = square - average * average;                                           \
    }                                                                                  \
    const T scaled = gradient / std::sqrt(variance + eps);                             \
    if (BUFFER) {                                                                      \
      const T moved = buffer[i] * momentum + inside * scaled;                          \
      buffer[i] = moved;                                                               \
      p[i] = weight - outside * moved;                                                 \
    } else {                                                                           \
      p[i] = weight - lr * scaled;                                                     \
    }                                                                                  \
  }
    if (buffer && mean) { LOOP(true, true) }
    else if (buffer) { LOOP(true, false) }
    else if (mean) { LOOP(false, true) }
    else { LOOP(false, false) }
#undef LOOP
  });
}

template <class T>
void adadelta(int threads, int64_t n, T* p, T* g, T* squares, T* deltas, T*, const double* o) {
  const T lr = o[0], rho = o[1], rate = 1 - o[1], eps = o[2], decay = o[3], factor = o[4], sign = o[5] != 0 ? -1 : 1;
  spans(threads, n, [&](int64_t first, int64_t last) {
    _Pragma("GCC ivdep") for (int64_t i = first; i < last; ++i) {
      const T given = g[i] * factor;
      if (factor != 1) g[i] = given;
      const T gradient = sign * given + decay * p[i];
      const T square = squares[i] * rho + rate * gradient * gradient;
      squares[i] = square;
      const T delta = std::sqrt(deltas[i] + eps) / std::sqrt(square + eps) * gradient;
      deltas[i] = deltas[i] * rho + rate * delta * delta;
      p[i] -= lr * delta;
    }
  });
}

template <class T>
void bert_adam(int threads, int64_t n, T* p, T* g, T* m, T* v, T*, const double* o) {
  const T lr = o[0], beta1 = o[1], beta2 = o[2], eps = o[3], decay = o[4], factor = o[5];
  const T rate1 = 1 - o[1], rate2 = 1 - o[2];
  spans(threads, n, [&](int64_t first, int64_t last) {
    _Pragma("GCC ivdep") for (int64_t i = first; i < last; ++i) {
      const T gradient = g[i] * factor;
      if (factor != 1) g[i] = gradient;
      const T mean = m[i] * beta1 + rate1 * gradient;
      const T square = v[i] * beta2 + rate2 * gradient * gradient;
      m[i] = mean;
      v[i] = square;
      p[i] -= lr * (mean / (std::sqrt(square) + eps) + decay * p[i]);
    }
  });
}

// Two sums over the elements of a stretch, in blocks, so that the error does not grow with its length.
struct Sums {
  double one = 0, two = 0, three = 0;
};

template <class T>
struct Lamb {
  T lr, beta1, rate1, beta2, rate2, eps, decay, factor, divisor;
  bool is_adam;
  T *p, *g, *m, *v;

  Sums first_pass(int64_t first, int64_t last) const {
    return factor != 1 ? summed<true>(first, last) : summed<false>(first, last);
  }

  // NOTE: GCC does not take a condition on `factor` out of such a loop, and then uses no vectors in it.
  template <bool kScales>
  Sums summed(int64_t first, int64_t last) const {
    // Copies: a store to an array could change the fields, for all that the compiler knows.
    T *const p = this->p, *const g = this->g, *const m = this->m, *const v = this->v;
    const T beta1 = this->beta1, rate1 = this->rate1, beta2 = this->beta2, rate2 = this->rate2, eps = this->eps;
    const T decay = this->decay, factor = this->factor, divisor = this->divisor;
    Sums sums;
    for (int64_t begin = first; begin < last; begin += kBlock) {
      const int64_t end = begin + kBlock < last ? begin + kBlock : last;
      T weights = 0, steps = 0;
#pragma omp simd reduction(+ : weights, steps)
      for (int64_t i = begin; i < end; ++i) {
        const T given = kScales ? g[i] * factor : g[i];
        if constexpr (kScales) g[i] = given;
        const T gradient = given / divisor;
        const T mean = m[i] * beta1 + rate1 * gradient;
        const T square = v[i] * beta2 + rate2 * gradient * gradient;
        m[i] = mean;
        v[i] = square;
        const T step = mean / (std::sqrt(square) + eps) + decay * p[i];
        weights += p[i] * p[i];
        steps += step * step;
      }
      sums.one += weights;
      sums.two += steps;
    }
    return sums;
  }

  void second_pass(int64_t first, int64_t last, T rate) const {
    T* const p = this->p;
    const T *const m = this->m, *const v = this->v, eps = this->eps, decay = this->decay;
    _Pragma("GCC ivdep") for (int64_t i = first; i < last; ++i) {
      p[i] -= rate * (m[i] / (std::sqrt(v[i]) + eps) + decay * p[i]);
    }
  }

  T rate_of(const Sums& sums) const {
    double weights = std::sqrt(sums.one);
    const double steps = std::sqrt(sums.two);
    if (weights > 10) weights = 10;
    return is_adam || weights == 0 || steps == 0 ? lr : static_cast<T>(lr * (weights / steps));
  }
};

template <class T>
void lamb(int threads, int64_t n, T* p, T* g, T* m, T* v, const double* o, int64_t count, const int64_t* starts,
          const int64_t* lengths) {
  const Lamb<T> all{T(o[0]), T(o[1]), T(1 - o[1]), T(o[2]), T(1 - o[2]), T(o[3]), T(o[4]), T(o[5]), T(o[6]), o[7] != 0,
                    p,       g,       m,           v};
  if (count == 1) {
    const int64_t parts = n / kGrain < threads ? n / kGrain + 1 : threads;
    const std::unique_ptr<Sums[]> found(new Sums[parts]);
    each(threads, parts, [&](int64_t part) { found[part] = all.first_pass(n * part / parts, n * (part + 1) / parts); });
    Sums sums;
    for (int64_t part = 0; part < parts; ++part) {
      sums.one += found[part].one;
      sums.two += found[part].two;
    }
    const T rate = all.rate_of(sums);
    each(threads, parts, [&](int64_t part) { all.second_pass(n * part / parts, n * (part + 1) / parts, rate); });
    return;
  }
  each(n < kGrain ? 1 : threads, count, [&](int64_t piece) {
    const int64_t first = starts[piece], last = first + lengths[piece];
    all.second_pass(first, last, all.rate_of(all.first_pass(first, last)));
  });
}

template <class T>
struct AdamP {
  T beta1, rate1, beta2, rate2, eps, divisor, factor, step_size, shrink, shrink_less;
  double delta;
  bool is_nesterov;
  T *p, *g, *m, *v;

  Sums first_pass(int64_t first, int64_t last) const {
    return factor != 1 ? summed<true>(first, last) : summed<false>(first, last);
  }

  // NOTE: GCC does not take a condition on `factor` out of such a loop, and then uses no vectors in it.
  template <bool kScales>
  Sums summed(int64_t first, int64_t last) const {
    // Copies: a store to an array could change the fields, for all that the compiler knows.
    T *const p = this->p, *const g = this->g, *const m = this->m, *const v = this->v;
    const T beta1 = this->beta1, rate1 = this->rate1, beta2 = this->beta2, rate2 = this->rate2, factor = this->factor;
    Sums sums;
    for (int64_t begin = first; begin < last; begin += kBlock) {
      const int64_t end = begin + kBlock < last ? begin + kBlock : last;
      T weights = 0, gradients = 0, products = 0;
#pragma omp simd reduction(+ : weights, gradients, products)
      for (int64_t i = begin; i < end; ++i) {
        const T gradient = kScales ? g[i] * factor : g[i], weight = p[i];
        if constexpr (kScales) g[i] = gradient;
        m[i] = m[i] * beta1 + rate1 * gradient;
        v[i] = v[i] * beta2 + rate2 * gradient * gradient;
        weights += weight * weight;
        gradients += gradient * gradient;
        products += weight * gradient;
      }
      sums.one += weights;
      sums.two += gradients;
      sums.three += products;
    }
    return sums;
  }

  // Whether the cosine of weights and gradient is below the limit; false where it is not a number.
  bool is_small(const Sums& sums, int64_t length) const {
    const double cosine = std::fabs(sums.three) / (std::sqrt(sums.two) + eps) / (std::sqrt(sums.one) + eps);
    return cosine < delta / std::sqrt(static_cast<double>(length));
  }

  // The product of the weights and the step. Without Nesterov momentum `ahead` is 1 and `now` 0.
  double along(int64_t first, int64_t last) const {
    const T *const p = this->p, *const g = this->g, *const m = this->m, *const v = this->v;
    const T eps = this->eps, divisor = this->divisor, ahead = is_nesterov ? beta1 : 1, now = is_nesterov ? rate1 : 0;
    double sum = 0;
    for (int64_t begin = first; begin < last; begin += kBlock) {
      const int64_t end = begin + kBlock < last ? begin + kBlock : last;
      T part = 0;
#pragma omp simd reduction(+ : part)
      for (int64_t i = begin; i < end; ++i) {
        part += p[i] * ((m[i] * ahead + now * g[i]) / (std::sqrt(v[i]) / divisor + eps));
      }
      sum += part;
    }
    return sum;
  }

  // Moves the weights by the step without `radial` times the weights themselves.
  void second_pass(int64_t first, int64_t last, T radial, T shrinks) const {
    T* const p = this->p;
    const T *const g = this->g, *const m = this->m, *const v = this->v;
    const T eps = this->eps, divisor = this->divisor, step_size = this->step_size, beta1 = this->beta1;
    const T rate1 = this->rate1;
    if (is_nesterov) {
      _Pragma("GCC ivdep") for (int64_t i = first; i < last; ++i) {
        const T step = (m[i] * beta1 + rate1 * g[i]) / (std::sqrt(v[i]) / divisor + eps);
        p[i] = p[i] * shrinks - step_size * (step - radial * p[i]);
      }
      return;
    }
    _Pragma("GCC ivdep") for (int64_t i = first; i < last; ++i) {
      p[i] = p[i] * shrinks - step_size * (m[i] / (std::sqrt(v[i]) / divisor + eps) - radial * p[i]);
    }
  }

  T radial_of(double product, double squares) const {
    const double norm = std::sqrt(squares) + eps;
    return static_cast<T>(product / norm / norm);
  }

  void piece(int threads, int64_t start, int64_t length, int64_t rows) const {
    const int64_t parts = rows > 0 ? rows : length / kGrain + 1;
    const auto begin = [&](int64_t part) { return start + length * part / parts; };
    const int own = length < kGrain ? 1 : threads;
    const std::unique_ptr<Sums[]> sums(new Sums[parts]);
    each(own, parts, [&](int64_t part) { sums[part] = first_pass(begin(part), begin(part + 1)); });
    bool by_row = rows > 0, by_layer = false;
    for (int64_t row = 0; by_row && row < rows; ++row) by_row = is_small(sums[row], length / rows);
    Sums whole;
    if (rows > 0 && !by_row) {
      for (int64_t row = 0; row < rows; ++row) {
        whole.one += sums[row].one;
        whole.two += sums[row].two;
        whole.three += sums[row].three;
      }
      by_layer = is_small(whole, length);
    }
    double product = 0;
    if (by_layer) {
      each(own, parts, [&](int64_t part) { sums[part].three = along(begin(part), begin(part + 1)); });
      for (int64_t part = 0; part < parts; ++part) product += sums[part].three;
    }
    const T shared = by_layer ? radial_of(product, whole.one) : 0;
    each(own, parts, [&](int64_t part) {
      const int64_t first = begin(part), last = begin(part + 1);
      const T radial = by_row ? radial_of(along(first, last), sums[part].one) : shared;
      second_pass(first, last, radial, by_row || by_layer ? shrink_less : shrink);
    });
  }
};

template <class T>
void adamp(int threads, int64_t n, T* p, T* g, T* m, T* v, const double* o, int64_t count, const int64_t* starts,
           const int64_t* lengths, const int64_t* rows) {
  const AdamP<T> all{T(o[0]), T(1 - o[0]), T(o[1]), T(1 - o[1]), T(o[2]),    T(o[3]), T(o[4]), T(o[5]),
                     T(o[6]), T(o[7]),     o[8],    o[9] != 0,   p,          g,       m,       v};
  if (count == 1) {
    if (n > 0) all.piece(threads, starts[0], lengths[0], rows[0]);
    return;
  }
  each(n < kGrain ? 1 : threads, count, [&](int64_t piece) {
    if (lengths[piece] > 0) all.piece(1, starts[piece], lengths[piece], rows[piece]);
  });
}

}  // namespace

#define EXPORT(T, SUFFIX)                                                                                        \
  extern "C" void rmsprop_##SUFFIX(int t, int64_t n, T* p, T* g, T* a, T* b, T* c, const double* o) {             \
    rmsprop<T>(t, n, p, g, a, b, c, o);                                                                          \
  }                                                                                                              \
  extern "C" void rmsprop_tf_##SUFFIX(int t, int64_t n, T* p, T* g, T* a, T* b, T* c, const double* o) {          \
    rmsprop_tf<T>(t, n, p, g, a, b, c, o);                                                                       \
  }                                                                                                              \
  extern "C" void adadelta_##SUFFIX(int t, int64_t n, T* p, T* g, T* a, T* b, T* c, const double* o) {            \
    adadelta<T>(t, n, p, g, a, b, c, o);                                                                         \
  }                                                                                                              \
  extern "C" void bert_adam_##SUFFIX(int t, int64_t n, T* p, T* g, T* a, T* b, T* c, const double* o) {           \
    bert_adam<T>(t, n, p, g, a, b, c, o);                                                                        \
  }                                                                                                              \
  extern "C" void lamb_##SUFFIX(int t, int64_t n, T* p, T* g, T* a, T* b, const double* o, int64_t count,         \
                                const int64_t* starts, const int64_t* lengths) {                                 \
    lamb<T>(t, n, p, g, a, b, o, count, starts, lengths);                                                        \
  }                                                                                                              \
  extern "C" void adamp_##SUFFIX(int t, int64_t n, T* p, T* g, T* a, T* b, const double* o, int64_t count,        \
                                 const int64_t* starts, const int64_t* lengths, const int64_t* rows) {           \
    adamp<T>(t, n, p, g, a, b, o, count, starts, lengths, rows);                                                 \
  }

EXPORT(float, f32)
EXPORT(double, f64)
