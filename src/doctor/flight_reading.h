// What the flight records of a job say about its end, as lines that the rules match.
#pragma once

#include <string>
#include <vector>

#include "comm/flight_record.h"

namespace plait {

// One line a fact, "plait flight record: ..." with its time first: a rank that called something
// else than the others of its group, a rank that did not come to the operation the others wait in,
// what each rank was in. Empty if every rank's operations had ended.
std::string describe_flights(const std::vector<FlightLog>& logs);

}  // namespace plait
