// Plans as text for a terminal and as JSON.
#pragma once

#include <string>

#include "plan/score.h"
#include "plan/score_fit.h"
#include "plan/search.h"

namespace plait {

std::string bytes_text(double bytes);  // format_bytes of whole bytes

// One layout in full: memory per stage by category, time per phase, traffic per axis, sources.
std::string estimate_text(const TrainJob& job, const Cluster& cluster, const Estimate& estimate);
std::string estimate_json(const TrainJob& job, const Cluster& cluster, const Estimate& estimate);

// The table of the best layouts, the reason for the winner, what its neighbours break on.
std::string search_text(const SearchRequest& request, const SearchResult& result);
std::string search_json(const SearchRequest& request, const SearchResult& result);

// The longest sequence and the largest micro batch that the best layout can hold.
std::string limits_text(const SearchRequest& request, const SearchResult& result);

// Two layouts side by side.
std::string diff_text(const Candidate& a, const Candidate& b);

std::string score_text(const ScoreTable& table, const ScoreReport& report);
std::string score_json(const ScoreTable& table, const ScoreReport& report);

std::string fit_text(const FitResult& fit);

// Each model predicted with constants fitted to the others.
std::string hold_out_text(const HoldOut& hold_out);

// The figures of the cluster that a prediction rests on, each with its provenance and source.
std::string provenance_text(const Cluster& cluster);

}  // namespace plait
