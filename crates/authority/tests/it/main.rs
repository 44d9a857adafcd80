//! Answers from whole zones: what the sections hold, and that the message says it.
//!
//! | module | does |
//! |---|---|
//! | `allocations` | that answering takes no memory from the heap |
//! | `cases` | scenarios in `cases/*.txt`: zones as master files, questions, the answers the RFCs ask for |
//! | `chains` | CNAME and DNAME chains whose names share all they can: how deep pointers go |
//! | `model` | random zones and questions against the reference in [`testkit::answers`] |
//! | `pointers` | names and RRsets that push compression pointers to where they can go wrong |
//! | `support` | a set of zones that can be asked |
//! | `versions` | zones that change answer as zones do that are built whole |

mod allocations;
mod cases;
mod chains;
mod model;
mod pointers;
mod support;
mod versions;
