//! The zones that the server serves: configuration, loading, reloading and publishing.
//!
//! | file | holds |
//! |---|---|
//! | `resolve` | reading keys and listing folders for the plan of all zones (`zone-plan`) |
//! | `membership` | the zones of catalog zones |
//! | `produce` | catalog zones that nomen produces |
//! | `added` | the file of the zones that were added at run time |
//! | `created` | zones that programs create at run time, and the files of their first records |
//! | `documents` | documents about zones that other parts store, for their removal |
//! | `manager` | the thread that reports the configuration's zones and the results of loads to zones |
//! | `follower` | what the database sends, passed on to the manager and to the thread that changes zones |
//! | `publishing` | the thread that reports new versions to zones and puts zones into service |
//! | `executor` | carries out the actions of zone states for both threads |
//! | `loaders`, `text`, `images` | reading zones: the threads, a zone's text, a zone's image |
//! | `progress` | progress of long loads |
//! | `places` | places in a zone's text of findings about the zone as a whole |
//! | `examiner` | examining versions in service |
//! | `report` | the result of a reload, for its requester |
//! | `zone_access` | who may query the zones in service |
//! | `publisher` | the steps from one catalog to the next |
//!
//! # Sources of zones
//!
//! Zones come from four sources: the configuration (`resolve`), catalog zones (`membership`), operators at
//! run time (`added`, a file that is read with the configuration), and the database (`manager::of_database`).
//! `manager::members` combines them: a
//! change of one source adds and removes zones without touching others. `manager::rounds` groups what is
//! reported together: rounds of a single zone run beside the one of all zones, and none waits for a load
//! without progress, in whose place `loaders` starts another thread.
//!
//! # Two threads
//!
//! The state of each zone decides its actions, and two threads report events to it: `manager`, which may wait
//! for the disk, and `publishing`, which waits for nothing but the lock of the zone table. That lock is held
//! while a zone's actions are carried out, so that they leave in the order of its events, and not while a
//! thread waits for a disk or another server: no reload delays an update or a transfer. (If the system
//! refuses a thread for a write, the caller writes while it holds the lock.)

pub mod added;
pub mod created;
pub mod documents;
pub mod examiner;
mod executor;
pub mod follower;
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
mod zone_access;
