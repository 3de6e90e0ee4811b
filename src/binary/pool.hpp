// Work on images beside the thread that reads them (internal): what waits is bounded in bytes.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace tetrad::binary {

class Pool {
 public:
  // `threads` in all, the submitting one among them; `most` bytes may be in work or wait.
  Pool(int threads, std::uint64_t most) : most_(most) {
    for (int i = 1; i < threads; ++i) {
      workers_.emplace_back([this] { serve(); });
    }
  }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  ~Pool() {
    finish();
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
    }
    changed_.notify_all();
    for (std::thread& worker : workers_) worker.join();
  }

  // Hands `task`, which holds `bytes` of memory, to a worker. Where too much waits, the calling thread works first.
  void submit(std::uint64_t bytes, std::function<void()> task) {
    std::unique_lock lock(mutex_);
    while (in_work_ > 0 && in_work_ + bytes > most_) {
      if (!queue_.empty()) {
        run_one(lock);
      } else {
        changed_.wait(lock);
      }
    }
    in_work_ += bytes;
    queue_.push_back({bytes, std::move(task)});
    if (workers_.empty()) {
      run_one(lock);
    } else {
      lock.unlock();
      changed_.notify_all();
    }
  }

  // Returns when all is done; the calling thread helps.
  void finish() {
    std::unique_lock lock(mutex_);
    while (!queue_.empty() || running_ > 0) {
      if (!queue_.empty()) {
        run_one(lock);
      } else {
        changed_.wait(lock);
      }
    }
  }

 private:
  struct Item {
    std::uint64_t bytes = 0;
    std::function<void()> task;
  };

  void run_one(std::unique_lock<std::mutex>& lock) {
    Item item = std::move(queue_.front());
    queue_.pop_front();
    ++running_;
    lock.unlock();
    item.task();
    item.task = nullptr;
    lock.lock();
    --running_;
    in_work_ -= item.bytes;
    changed_.notify_all();
  }

  void serve() {
    std::unique_lock lock(mutex_);
    for (;;) {
      if (!queue_.empty()) {
        run_one(lock);
      } else if (closed_) {
        return;
      } else {
        changed_.wait(lock);
      }
    }
  }

  const std::uint64_t most_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> queue_;
  std::uint64_t in_work_ = 0;
  std::uint64_t running_ = 0;
  bool closed_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace tetrad::binary
