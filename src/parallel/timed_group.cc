#include "parallel/timed_group.h"

#include <utility>

#include "base/clock.h"

namespace plait {
namespace {

// Adds the time that wait() blocks, and the transfer's own span once it is over.
class TimedWork final : public Work::State {
 public:
  TimedWork(Work inner, Wait wait, std::string name, StepRecorder& recorder)
      : inner_(std::move(inner)), wait_(wait), name_(std::move(name)), recorder_(recorder) {}

  bool done() override {
    const bool done = inner_.done();
    if (done) {
      note_transfer();
    }
    return done;
  }

  void wait() override {
    const double start = now_s();
    inner_.wait();
    const double end = now_s();
    recorder_.add_wait(wait_, end - start);
    if (recorder_.tracing() && !noted_) {
      recorder_.add_span({"wait " + name_, TraceLane::kWait, start, end});
    }
    note_transfer();
  }

 private:
  void note_transfer() {
    if (std::exchange(noted_, true) || !recorder_.tracing()) {
      return;
    }
    const Work::Interval interval = inner_.interval();
    if (interval.end_s > 0) {
      recorder_.add_span({name_, TraceLane::kTransfer, interval.begin_s, interval.end_s});
    }
  }

  Work inner_;
  Wait wait_;
  std::string name_;
  StepRecorder& recorder_;
  bool noted_ = false;
};

class TimedGroup final : public ProcessGroup {
 public:
  TimedGroup(std::unique_ptr<ProcessGroup> inner, Wait wait, StepRecorder& recorder)
      : inner_(std::move(inner)), wait_(wait), recorder_(recorder) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  const std::string& name() const override { return inner_->name(); }

  Work all_reduce(const AllReduceOptions& options) override {
    return timed("all_reduce", options, &ProcessGroup::all_reduce);
  }
  Work reduce_scatter(const ReduceScatterOptions& options) override {
    return timed("reduce_scatter", options, &ProcessGroup::reduce_scatter);
  }
  Work all_gather(const AllGatherOptions& options) override {
    return timed("all_gather", options, &ProcessGroup::all_gather);
  }
  Work broadcast(const BroadcastOptions& options) override {
    return timed("broadcast", options, &ProcessGroup::broadcast);
  }
  Work all_to_all(const AllToAllOptions& options) override {
    return timed("all_to_all", options, &ProcessGroup::all_to_all);
  }
  Work send(const TransferOptions& options) override {
    return timed("send", options, &ProcessGroup::send);
  }
  Work recv(const TransferOptions& options) override {
    return timed("recv", options, &ProcessGroup::recv);
  }
  void barrier() override {
    const double start = now_s();
    inner_->barrier();
    note_blocking("barrier", start);
  }
  std::vector<std::string> gather_bytes(const std::string& mine) override {
    const double start = now_s();
    std::vector<std::string> result = inner_->gather_bytes(mine);
    note_blocking("gather_bytes", start);
    return result;
  }

 private:
  template <typename Options>
  Work timed(const char* operation, const Options& options,
             Work (ProcessGroup::*method)(const Options&)) {
    const double start = now_s();
    Work work = (inner_.get()->*method)(options);
    if (!options.async) {
      note_blocking(operation, start);
      return work;
    }
    return Work(
        std::make_shared<TimedWork>(std::move(work), wait_, span_name(operation), recorder_));
  }

  // Only built while tracing: a string a call would cost more than small collectives.
  std::string span_name(const char* operation) const {
    return recorder_.tracing() ? std::string(operation) + " " + name() : std::string();
  }

  void note_blocking(const char* operation, double start) {
    const double end = now_s();
    recorder_.add_wait(wait_, end - start);
    if (recorder_.tracing()) {
      recorder_.add_span({span_name(operation), TraceLane::kWait, start, end});
    }
  }

  std::unique_ptr<ProcessGroup> inner_;
  Wait wait_;
  StepRecorder& recorder_;
};

}  // namespace

std::unique_ptr<ProcessGroup> make_timed_group(std::unique_ptr<ProcessGroup> group, Wait wait,
                                               StepRecorder& recorder) {
  if (group->size() == 1) {
    return group;
  }
  return std::make_unique<TimedGroup>(std::move(group), wait, recorder);
}

}  // namespace plait
