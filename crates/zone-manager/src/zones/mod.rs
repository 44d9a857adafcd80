//! Which zones are served: the configuration, loading, reloading and publishing.
//!
//! | file | holds |
//! |---|---|
//! | `resolve` | which zones the configuration asks for |
//! | `membership` | which zones catalog zones ask for |
//! | `produce` | catalog zones that are made here |
//! | `added` | the file of the zones that were added at run time |
//! | `manager` | the thread that reports to zones what the configuration wants, and the results of loads |
//! | `publishing` | the thread that reports new versions to zones and puts zones into service |
//! | `executor` | what the states of zones decide, carried out for both threads |
//! | `loaders`, `text`, `images` | reading zones: the threads, a zone's text, a zone's image |
//! | `progress` | how far a long load is |
//! | `places` | where findings about a zone as a whole stand in its text |
//! | `examiner` | versions in service: what is to be known of them, and folding them |
//! | `report` | what a reload did and found, for its requester |
//! | `publisher` | the steps from one catalog to the next |
//!
//! # Who wants a zone
//!
//! Three parts want zones: the configuration (`resolve`), catalog zones (`membership`), and operators at run
//! time (`added`, a file that is read with the configuration). They meet in `manager::members`, where a
//! change of one becomes zones that come and go, and no other zone is looked at. `manager::rounds` has what
//! is reported together: rounds about one zone go on beside the one about all, and none waits for a load
//! without progress, in whose place `loaders` starts another thread.
//!
//! # Two threads
//!
//! The state of each zone decides what is to be done, and two threads report events to it: `manager`, which
//! may wait for the disk, and `publishing`, which waits for nothing but the lock of the zone table. That lock
//! is held while a zone's actions are carried out, so that they leave in the order of its events, and not
//! while a thread waits for a disk or another server: no reload delays an update or a transfer. (Where the
//! system refuses a thread for a write, the caller writes, with the lock.)

pub mod added;
pub mod examiner;
mod executor;
pub mod images;
mod loaders;
pub mod manager;
pub mod membership;
pub mod places;
pub mod produce;
mod progress;
mod publisher;
mod publishing;
pub mod report;
pub mod resolve;
pub mod text;
