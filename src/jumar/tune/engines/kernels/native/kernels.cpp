// The library: runs a program of operations, each shared by all threads, with a barrier after it.
#include <atomic>
#include <ctime>
#include <memory>

#include "fused.hpp"
#include "planes.hpp"
#include "simple.hpp"
#include "winograd.hpp"

// PyTorch's own pool of threads: its OpenMP runtime is in the process already, and a second pool would fight it for
// the cores. Weak: without one, everything runs in the calling thread.
extern "C" {
__attribute__((weak)) void GOMP_parallel(void (*function)(void*), void* data, unsigned threads, unsigned flags);
__attribute__((weak)) int omp_get_num_threads();
}

namespace {

class Barrier {
 public:
  void wait(int& phase, int threads) {
    phase++;
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == threads * phase) return;
    for (int spins = 0; arrived_.load(std::memory_order_acquire) < threads * phase; spins++) {
      if (spins < 2000) {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
      } else {
        timespec nap{0, 1000};  // the other thread may have lost its core
        nanosleep(&nap, nullptr);
      }
    }
  }

 private:
  std::atomic<int> arrived_{0};
};

void run_one(const Op* op, const Run& run, int thread, int threads) {
  switch (op->code) {
    case CODE_LOAD: return run_load(*op, run, thread, threads);
    case CODE_STORE: return run_store(*op, run, thread, threads);
    case CODE_HALO: return run_halo(*op, run, thread, threads);
    case CODE_PHASES: return run_phases(*op, run, thread, threads);
    case CODE_PHASE_PLANES: return run_phase_planes(*op, run, thread, threads);
    case CODE_PRODUCT: return run_product(*op, run, thread, threads);
    case CODE_DEPTHWISE: return run_depthwise(*op, run, thread, threads);
    case CODE_WINOGRAD: return run_winograd(*op, run, thread, threads);
    case CODE_DEPTHWISE_PLANES: return run_depthwise_planes(*op, run, thread, threads);
    case CODE_GELU: return run_gelu(*op, run, thread, threads);
    case CODE_TILES_IN:
      return op->kind == 4 ? tiles_in<4>(*op, run, thread, threads) : tiles_in<2>(*op, run, thread, threads);
    case CODE_TILES_OUT:
      return op->kind == 4 ? tiles_out<4>(*op, run, thread, threads) : tiles_out<2>(*op, run, thread, threads);
    case CODE_FUSED: return run_fused(*op, op[1], run, thread, threads);
    case CODE_POOL: return run_pool(*op, run, thread, threads);
    case CODE_MEAN: return run_mean(*op, run, thread, threads);
    case CODE_GATHER: return run_gather(*op, run, thread, threads);
    case CODE_BINARY: return run_binary(*op, run, thread, threads);
    default: return;
  }
}

// Every operation is cut into so many shares a thread. A thread that is done takes what another has not begun: in a
// virtual machine, cores are taken away or slow for a while.
constexpr int kShares = 2;

struct Job {
  const Op* ops;
  int64_t count;
  const Run* run;
  int threads;
  std::atomic<bool>* taken;  // for each operation, its shares
  Barrier barrier{};
  std::atomic<int> next{0};
};

// Computes this thread's shares of one operation, then those of others that nobody has taken.
void run_shares(const Op* op, const Run& run, int threads, std::atomic<bool>* taken) {
  const int shares = threads * kShares;
  for (int i = 0; i < shares; i++) {
    const int share = (run.lane * kShares + i) % shares;
    if (!taken[share].exchange(true, std::memory_order_relaxed)) run_one(op, run, share, shares);
  }
}

void work(void* data) {
  Job& job = *static_cast<Job*>(data);
  // The runtime may give fewer threads than were asked for (inside another parallel region: one).
  const int threads = job.threads == 1 ? 1 : omp_get_num_threads();
  int phase = 0;
  Run run = *job.run;
  run.lane = job.next.fetch_add(1);
  for (int64_t i = 0; i < job.count; i++) {
    if (threads == 1) run_one(job.ops + i, run, 0, 1);
    else run_shares(job.ops + i, run, threads, job.taken + i * threads * kShares);
    if (threads > 1 && job.ops[i].barrier) job.barrier.wait(phase, threads);
    if (job.ops[i].code == CODE_FUSED) i++;
  }
}

struct Images {
  const Op* ops;
  int64_t count, images, arena_size, num_given;
  const Run* run;
  std::atomic<int> next_thread{0}, next_image{0};
};

void work_images(void* data) {
  Images& job = *static_cast<Images*>(data);
  const auto given = std::make_unique<float*[]>(size_t(job.num_given));
  Run run = *job.run;
  run.arena += job.next_thread.fetch_add(1) * job.arena_size;
  run.given = given.get();
  for (int64_t n; (n = job.next_image.fetch_add(1)) < job.images;) {
    for (int64_t i = 0; i < job.num_given; i++) given[i] = job.run->given[i] + n * run.strides[i * 4];
    for (int64_t i = 0; i < job.count; i++) {
      run_one(job.ops + i, run, 0, 1);
      if (job.ops[i].code == CODE_FUSED) i++;
    }
  }
}

void in_parallel(void (*function)(void*), void* data, int threads) {
  if (threads > 1) GOMP_parallel(function, data, unsigned(threads), 0);
  else function(data);
}

int usable(int threads) { return GOMP_parallel && omp_get_num_threads ? threads : 1; }

}  // namespace

extern "C" {

int jumar_lanes() { return VL; }
int64_t jumar_op_size() { return sizeof(Op); }

void jumar_run(const Op* ops, int64_t count, float* arena, const float* weights, const int32_t* tables, float** given,
               const int64_t* strides, int threads) {
  Run run{arena, weights, tables, given, strides};
  threads = usable(threads);
  std::unique_ptr<std::atomic<bool>[]> taken;
  if (threads > 1) taken = std::make_unique<std::atomic<bool>[]>(size_t(count * threads * kShares));
  Job job{ops, count, &run, threads, taken.get()};
  in_parallel(work, &job, threads);
}

// A program for one image, run for each image of a batch; every thread takes whole images, in an arena of its own.
void jumar_run_images(const Op* ops, int64_t count, float* arena, int64_t arena_size, const float* weights,
                      const int32_t* tables, float** given, int64_t num_given, const int64_t* strides, int64_t images,
                      int threads) {
  Run run{arena, weights, tables, given, strides};
  Images job{ops, count, images, arena_size, num_given, &run};
  in_parallel(work_images, &job, usable(threads));
}

// Nanoseconds of CPU time of one operation's longest share among so many threads, the least of several runs. The shares
// are computed one after the other: what else runs on the machine does not count.
int64_t jumar_time(const Op* ops, float* arena, const float* weights, const int32_t* tables, int threads, int repeats) {
  Run run{arena, weights, tables, nullptr, nullptr};
  int64_t longest = 0;
  threads = usable(threads);
  for (int thread = 0; thread < threads; thread++) {
    int64_t best = INT64_MAX;
    for (int i = 0; i < repeats; i++) {
      timespec before, after;
      clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
      run_one(ops, run, thread, threads);
      clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
      int64_t spent = (after.tv_sec - before.tv_sec) * 1000000000LL + after.tv_nsec - before.tv_nsec;
      if (spent < best) best = spent;
    }
    if (best > longest) longest = best;
  }
  return longest;
}
}
