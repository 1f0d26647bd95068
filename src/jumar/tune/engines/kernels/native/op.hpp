// What an operation knows, what a run knows, and how work is shared out.
#pragma once
#include "micro.hpp"
#include "fields.hpp"  // struct Op, written from the list in program.py

struct Run {
  float* arena;
  const float* weights;
  const int32_t* tables;
  float** given;              // external tensors: inputs, then outputs
  const int64_t* strides;     // four for each, in elements
  int lane = 0;               // the thread whose scratch memory is used
};

struct Share {
  int64_t first, last;
  Share(int64_t count, int thread, int threads)
      : first(count * thread / threads), last(count * (thread + 1) / threads) {}
};
