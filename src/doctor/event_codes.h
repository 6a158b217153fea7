// Codes that are composed of parts: fault events of the chips and error codes of MindIE.
#pragma once

#include <string>

#include "doctor/fault_codes.h"
#include "doctor/pattern.h"

namespace plait {

// "80C98008": bits 17..30 are the node type (64: AI Core), bits 9..16 the sensor type, bits 0..8
// the state. An empty meaning if the node type is not known. Source: the events that mind-cluster
// lists with both their code and these fields.
FaultCode chip_event(const std::string& code);

// Whether the event speaks for broken hardware rather than for software or the environment.
bool is_hardware_event(const std::string& code);

// "MIE04E020204": MIE, two digits of the component, E, ..., two digits of the kind.
FaultCode mindie_code(const std::string& code);

// Completes the words of a rule that captured a code ("event"), its parts ("event_node",
// "event_sensor", "event_state") or the end of a MindIE code ("event_tail"): "event",
// "event_meaning" and "event_action". Nothing is added for a code that is not known.
void add_event_words(Captures& captures);

}  // namespace plait
