// Plans as one self-contained HTML page: no external files, drawings in SVG, readable in light and
// dark and on paper.
#pragma once

#include <string>

#include "plan/search.h"

namespace plait {

// Points that SearchRequest::scatter should ask for.
constexpr int kHtmlScatterPoints = 5000;

// One layout: timeline of the pipeline, memory of its stages, where the time goes, sources.
std::string estimate_html(const TrainJob& job, const Cluster& cluster, const Estimate& estimate);

// The best layout drawn as above, the table of the best, why it won, and the scatter of
// result.scatter.
std::string search_html(const SearchRequest& request, const SearchResult& result);

}  // namespace plait
