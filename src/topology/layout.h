// How a job is split over its ranks, as the user writes it: one struct for plan, check, train and
// serve. Whether it fits a model and a batch is checked in spec/validate.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "topology/mesh.h"

namespace plait {

enum class Recompute : uint8_t {
  kNone,       // forward saves what backward reads
  kSelective,  // norm outputs, the rotated q and k under QK-norm, and the SwiGLU product are redone
  kFull,       // only each layer's input is saved
};
enum class ScheduleKind : uint8_t { kGpipe, kOneFOneB, kInterleaved, kZeroBubbleH1 };

const char* recompute_name(Recompute recompute);   // "none", "selective", "full"
const char* schedule_name(ScheduleKind schedule);  // "gpipe", "1f1b", "interleaved", "zb-h1"
// Errors: kInvalidArgument naming the value and the names that exist.
Recompute parse_recompute(const std::string& name);
ScheduleKind parse_schedule(const std::string& name);

struct Layout {
  int dp = 1;
  int tp = 1;
  int pp = 1;
  int vpp = 1;  // virtual stages (model chunks) per pipeline stage; > 1 needs kInterleaved
  int cp = 1;
  int ep = 1;
  bool sp = false;  // sequence parallelism over the tp group
  int zero = 0;     // ZeRO stage
  Recompute recompute = Recompute::kNone;
  ScheduleKind schedule = ScheduleKind::kOneFOneB;
  // Layers of each virtual stage in model order (pp * vpp numbers), or empty for an even split.
  std::vector<int64_t> stage_layers = {};

  int world_size() const { return dp * tp * pp * cp; }
  int num_virtual_stages() const { return pp * vpp; }
  Mesh mesh() const { return Mesh({.tp = tp, .cp = cp, .dp = dp, .pp = pp}); }
  bool operator==(const Layout&) const = default;
};

// Parses "dp2.tp2.pp2.vpp2.sp.zero1" (parts in any order, separated by '.', ',' or 'x'; each at
// most once; "recompute-full" and "1f1b" style names are flags of their own, not part of the
// string) on top of `base`. vpp > 1 turns the default schedule, 1f1b, into interleaved: set one
// that the user named on the result, not in base, and validation refuses what does not fit. Errors:
// kInvalidArgument naming the part, what is allowed, and the nearest valid part.
Layout parse_layout(const std::string& text, const Layout& base = {});

// The canonical string: degrees above 1 in the order dp, tp, pp, vpp, cp, ep, then sp, zeroN;
// "dp1" for one rank. parse_layout(to_string(x)) restores these fields.
std::string to_string(const Layout& layout);

// Layers [begin, end) of virtual stage `index` (model order).
struct LayerRange {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t count() const { return end - begin; }
  bool operator==(const LayerRange&) const = default;
};
// Virtual stage v lives on pipeline stage v % pp as its chunk v / pp. Requires: a validated layout.
std::vector<LayerRange> split_layers(const Layout& layout, int64_t num_layers);

}  // namespace plait
