// The drawings of a report: inline SVG with tooltips (data-tip). Internal to plan/html.
#pragma once

#include <string>
#include <vector>

#include "plan/search.h"

namespace plait {

// The frame that the plots share, in pixels.
inline constexpr double kPlotLeft = 70, kPlotWidth = 1010;

// What every pipeline stage does when: the schedule as it is simulated. Of deep pipelines and long
// steps a part is drawn, which the caption says.
std::string timeline_figure(const TrainJob& job, const Cluster& cluster);

// Bytes of every stage by category, the range of its peak, and the capacity.
std::string memory_figure(const Estimate& estimate);

// Where the seconds of a step go.
std::string time_figure(const StepTime& time);

// Peak memory against step time of the searched layouts.
std::string scatter_figure(const SearchResult& result, double capacity);

}  // namespace plait
