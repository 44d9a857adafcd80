//! What threads see of each other when they act for a core. A module of its own, so that the test `orders`
//! can put others in their place, which try every order.

pub(super) use std::sync::atomic::{AtomicBool, fence};
pub(super) use std::sync::{Mutex, MutexGuard};
pub(super) use std::thread_local;

pub(super) use mio::{Events, Poll, Waker};
