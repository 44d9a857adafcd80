//! DNS names, messages, EDNS and record data, on the wire and as text; no I/O, no clock.
