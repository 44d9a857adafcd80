//! Validation from outside: answers of a tree of signed zones, as they are and as an attacker makes them.

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
