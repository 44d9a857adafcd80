//! Validation through the public interface: answers of a tree of signed zones, unchanged and forged.

mod again;
mod algorithms;
mod classes;
mod costs;
mod denials;
mod hostile;
mod mutants;
mod peers;
mod plain;
mod rcodes;
mod recall;
mod rollover;
mod support;
mod synthesis;
