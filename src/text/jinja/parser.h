// From tokens to the tree.
#pragma once

#include <string>

#include "text/jinja/ast.h"

namespace plait::jinja {

// Errors, with origin and line: kCorruptData (syntax); kNotImplemented (a statement, filter or test
// that Jinja has and this does not).
Body parse(const std::string& source, const std::string& origin);

// What filters.h and tests.h know; here so that unknown names are refused before anything runs.
bool is_filter(const std::string& name);
bool is_test(const std::string& name);

}  // namespace plait::jinja
