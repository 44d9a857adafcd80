//! Validation from outside: answers of a tree of signed zones, as they are and as an attacker makes them.

mod classes;
mod hostile;
mod mutants;
mod plain;
mod rollover;
mod support;
