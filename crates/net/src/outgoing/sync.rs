//! The primitives that the threads of a core synchronize with. They are in a module of their own, so that the
//! test `orders` can replace them by ones that try every order.

pub(super) use std::sync::atomic::{AtomicBool, fence};
pub(super) use std::sync::{Mutex, MutexGuard};
pub(super) use std::thread_local;

pub(super) use mio::{Events, Poll, Waker};
