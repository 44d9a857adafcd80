//! Tests with a real PostgreSQL: nodes that follow and change one database, and what may go wrong between
//! them.

mod commits;
mod faults;
mod following;
mod keys;
mod node;
mod proxy;
mod records;
mod sections;
mod tables;
mod tls;
