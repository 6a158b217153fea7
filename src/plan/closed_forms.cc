#include "plan/closed_forms.h"

namespace plait {
namespace {

double layers_in_flight(const PaperShape& s) {
  return static_cast<double>(s.layers) *
         (1 + (s.pp - 1) / (static_cast<double>(s.pp) * s.vpp) * (s.vpp > 1 ? 1 : 0));
}

double sbh(const PaperShape& s) {
  return static_cast<double>(s.seq * s.micro_batch * s.hidden);
}

}  // namespace

double paper_state_bytes(const PaperShape& s) {
  return 18.0 * 12 * static_cast<double>(s.layers * s.hidden * s.hidden) / (s.tp * s.pp);
}

double paper_activation_bytes(const PaperShape& s) {
  const double scores =
      5.0 * static_cast<double>(s.heads * s.seq) / static_cast<double>(s.hidden * s.tp);
  return sbh(s) * (10 + 24.0 / s.tp + scores) * layers_in_flight(s);
}

double paper_selective_bytes(const PaperShape& s) {
  return sbh(s) * 34 / s.tp * layers_in_flight(s);
}

}  // namespace plait
