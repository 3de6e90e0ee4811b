#include "tetrad/parallel.hpp"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

namespace tetrad {
namespace {

using Body = std::function<void(std::int64_t, std::int64_t, int)>;

thread_local bool inside_pool = false;

// Tells the core that this is a spin loop.
void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

// Workers wait for a generation to begin: first by spinning (a kernel's launches follow each other closely), then
// asleep.
class Pool {
 public:
  static Pool& instance() {
    static Pool pool(hardware_threads() - 1);
    return pool;
  }

  void run(std::int64_t count, std::int64_t grain, int threads, const Body& body) {
    const std::lock_guard<std::mutex> one_caller(callers_);
    const int helpers = std::min<int>(threads - 1, static_cast<int>(workers_.size()));
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      body_ = &body;
      count_ = count;
      grain_ = grain;
      helpers_ = helpers;
      next_.store(0, std::memory_order_relaxed);
      running_.store(helpers, std::memory_order_relaxed);
      generation_.fetch_add(1, std::memory_order_release);
    }
    wake_.notify_all();
    inside_pool = true;
    work(0);
    inside_pool = false;
    while (running_.load(std::memory_order_acquire) != 0) std::this_thread::yield();
  }

 private:
  explicit Pool(int workers) {
    for (int i = 1; i <= workers; ++i) workers_.emplace_back([this, i] { serve(i); });
  }

  ~Pool() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      stop_ = true;
      generation_.fetch_add(1, std::memory_order_release);
    }
    wake_.notify_all();
    for (std::thread& worker : workers_) worker.join();
  }

  void work(int worker) {
    for (;;) {
      const std::int64_t begin = next_.fetch_add(grain_, std::memory_order_relaxed);
      if (begin >= count_) return;
      (*body_)(begin, std::min(begin + grain_, count_), worker);
    }
  }

  void serve(int worker) {
    constexpr int kSpins = 2000;
    inside_pool = true;
    std::uint64_t seen = 0;
    for (;;) {
      for (int spin = 0; spin < kSpins && generation_.load(std::memory_order_acquire) == seen; ++spin) {
        relax();
      }
      int helpers = 0;
      {
        std::unique_lock<std::mutex> lock(mutex_);
        wake_.wait(lock, [&] { return generation_.load(std::memory_order_relaxed) != seen; });
        seen = generation_.load(std::memory_order_relaxed);
        if (stop_) return;
        helpers = helpers_;
      }
      if (worker > helpers) continue;
      work(worker);
      running_.fetch_sub(1, std::memory_order_release);
    }
  }

  std::mutex callers_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::atomic<std::uint64_t> generation_{0};
  std::atomic<std::int64_t> next_{0};
  std::atomic<int> running_{0};
  const Body* body_ = nullptr;
  std::int64_t count_ = 0;
  std::int64_t grain_ = 1;
  int helpers_ = 0;
  bool stop_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace

int hardware_threads() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

void parallel_for(std::int64_t count, std::int64_t grain, int threads, const Body& body) {
  if (count <= 0) return;
  grain = std::max<std::int64_t>(grain, 1);
  if (threads <= 0) threads = hardware_threads();
  const std::int64_t pieces = (count + grain - 1) / grain;
  if (threads == 1 || pieces == 1 || inside_pool) {
    for (std::int64_t begin = 0; begin < count; begin += grain) body(begin, std::min(begin + grain, count), 0);
    return;
  }
  Pool::instance().run(count, grain, static_cast<int>(std::min<std::int64_t>(threads, pieces)), body);
}

}  // namespace tetrad
