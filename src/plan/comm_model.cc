#include "plan/comm_model.h"

namespace plait {

GroupPlace group_place(const TrainJob& job, CommAxis axis) {
  const Layout& l = job.layout;
  switch (axis) {
    case CommAxis::kTp:
      return {l.tp, 1};
    case CommAxis::kCp:
      return {l.cp, l.tp};
    case CommAxis::kDp:
      // With pp inside, the cp ranks of a replica are near, its copies a whole replica apart.
      if (job.pp_before_dp && l.cp > 1) {
        return {l.dp * l.cp, l.tp, l.cp, l.tp * l.cp * l.pp};
      }
      return {l.dp * l.cp, job.pp_before_dp ? l.tp * l.pp : l.tp};
    case CommAxis::kEp:
      return {l.ep, job.expert_tp()};
    case CommAxis::kPp:
      return {l.pp, l.tp * l.cp * (job.pp_before_dp ? 1 : l.dp)};
  }
  return {};
}

}  // namespace plait
