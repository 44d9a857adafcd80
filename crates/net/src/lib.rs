//! Transports: datagrams and streams framed and handed to a handler; knows no DNS beyond framing.
