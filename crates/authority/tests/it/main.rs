//! Answers from whole zones: the contents of the sections, and their form in the message.
//!
//! | module | does |
//! |---|---|
//! | `allocations` | answering allocates nothing on the heap |
//! | `cases` | scenarios in `cases/*.txt`: zones as zone files, queries, the answers that the RFCs require |
//! | `chains` | CNAME and DNAME chains whose names share many labels: how deep pointers go |
//! | `model` | random zones and queries against the reference in [`testkit::answers`] |
//! | `pointers` | names and RRsets at the limits of compression pointers |
//! | `support` | a set of zones that answers queries |
//! | `versions` | changed zones answer as zones that are built whole |

mod allocations;
mod cases;
mod chains;
mod model;
mod pointers;
mod support;
mod versions;
