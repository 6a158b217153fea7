#include "serve/admission.h"

#include <algorithm>

namespace plait {
namespace {

constexpr double kWindowS = 1;
constexpr double kDecrease = 0.7;

}  // namespace

// With a target it starts low: too many at the start would break it before anything is measured.
AdmissionControl::AdmissionControl(const Options& options)
    : options_(options),
      limit_(options.target_ttft_s > 0 || options.target_tpot_s > 0
                 ? std::min<int64_t>(2, options.most)
                 : options.most) {}

void AdmissionControl::record_first_token(double seconds) {
  ttft_.add(seconds);
}

void AdmissionControl::record_step_of_decodes(double seconds) {
  tpot_.add(seconds);
}

void AdmissionControl::update(double now_s, int64_t running) {
  if (options_.target_ttft_s <= 0 && options_.target_tpot_s <= 0) {
    return;
  }
  was_full_ = was_full_ || running >= limit_;
  if (window_begin_s_ <= 0) {
    window_begin_s_ = now_s;
  }
  if (now_s - window_begin_s_ < kWindowS) {
    return;
  }
  if (ttft_.above(options_.target_ttft_s) || tpot_.above(options_.target_tpot_s)) {
    limit_ = std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(limit_) * kDecrease));
  } else if (was_full_ && ttft_.count + tpot_.count > 0) {
    // A limit that nobody reached says nothing about a higher one.
    limit_ = std::min(options_.most, limit_ + 1);
  }
  ttft_ = {};
  tpot_ = {};
  was_full_ = false;
  window_begin_s_ = now_s;
}

}  // namespace plait
